"""How much the calls may hold that carry no document, and so need no right to publish; and how much errors may."""

from typing import Final

MOST_QUERY_BYTES: Final = 16_000_000
"""Most bytes: a text of a million characters takes 12,000,000 where JSON escapes them all, other fields few."""
MOST_VALUES: Final = 20_000
"""Most values: a query with all filters and values that it may have holds about 8,500, and JSON as many commas."""
TOO_LARGE: Final = f"at most {MOST_QUERY_BYTES} bytes: only calls that publish a document may be larger"
TOO_MANY_VALUES: Final = f"at most {MOST_VALUES} values"
MOST_DETAIL_BYTES: Final = 1_500
"""Longest detail of an error, in bytes: gRPC sends it twice, up to three times as long, and clients take 8 KiB."""


def fitting(detail: str) -> str:
    """Return a detail with its beginning and end, if it is too long: one may repeat what a caller sent."""
    encoded = detail.encode(errors="replace")
    if len(encoded) <= MOST_DETAIL_BYTES:
        return detail
    half = MOST_DETAIL_BYTES // 2
    return f"{encoded[:half].decode(errors='ignore')} … {encoded[-half:].decode(errors='ignore')}"
