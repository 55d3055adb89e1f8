"""Tokenizers loaded from `tokenizer.json`."""

from hashlib import sha256
from pathlib import Path
from threading import Lock

from tokenizers import Tokenizer

from freki.schemas.errors import Misconfigured

_PAD_TOKENS = ("<pad>", "[PAD]")


def open_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer without padding and truncation; equal files share one instance.

    Raises Misconfigured for an invalid file.
    """
    content = path.read_bytes()
    digest = sha256(content).digest()
    with _opening:
        if digest not in _tokenizers:
            _tokenizers[digest] = _parsed(content, path)
        return _tokenizers[digest]


# Shared: the vocabulary of the two default models is the same and takes 300 MB.
_tokenizers: dict[bytes, Tokenizer] = {}
_opening = Lock()


def _parsed(content: bytes, path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises nothing more precise
        raise Misconfigured(f"{path} is not a tokenizer: {error}") from error
    # Files from the hub may configure either; the caller decides both.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def pad_id(tokenizer: Tokenizer) -> int:
    """Return the id of the padding token; 0 where there is none."""
    ids = (tokenizer.token_to_id(token) for token in _PAD_TOKENS)
    return next((token_id for token_id in ids if token_id is not None), 0)
