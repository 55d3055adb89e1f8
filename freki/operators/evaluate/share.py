"""A share of recorded traffic."""

from hashlib import blake2b

_HASHES = 2**64


def is_in_share(query_id: str, share: float) -> bool:
    """Return whether a query belongs to a share of all queries, in 0..1, by a hash of its id.

    Every run takes the same queries, and a larger share contains a smaller one. Raises ValueError outside of 0..1.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share: {share} is outside 0..1")
    # Lone surrogates occur in ids of foreign clients.
    digest = blake2b(query_id.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) < share * _HASHES
