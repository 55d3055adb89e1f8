"""How much the calls may hold that carry no document, and so need no right to publish; and how much errors may."""

from typing import Final

MOST_VALUES: Final = 20_000
"""Most values: a query with all filters and values that it may have holds about 8,500, and JSON as many commas."""
TOO_MANY_VALUES: Final = f"at most {MOST_VALUES} values"
_CHARACTER_BYTES: Final = 12
"""Most bytes of a character: JSON escapes one as two halves of six letters each."""
_OTHER_BYTES: Final = 4_000_000
"""Most bytes of all other fields of a query; they take few."""
MOST_DETAIL_BYTES: Final = 1_500
"""Longest detail of an error, in bytes: gRPC sends it twice, up to three times as long, and clients take 8 KiB."""


class QuerySizes:
    """How many bytes a call without a document may have; all APIs of a process share one."""

    def __init__(self, max_query_chars: int) -> None:
        """Create it for texts of so many characters."""
        self.max_query_chars = max_query_chars

    @property
    def most_bytes(self) -> int:
        """Room for the longest text, however it is escaped."""
        return _CHARACTER_BYTES * self.max_query_chars + _OTHER_BYTES

    def refusal(self, size: int) -> str | None:
        """Return why a call of so many bytes is refused; None: it is not."""
        if size <= self.most_bytes:
            return None
        return (
            f"at most {self.most_bytes} bytes, by FREKI_RETRIEVAL__MAX_QUERY_CHARS: "
            "only calls that publish a document may be larger"
        )


def fitting(detail: str) -> str:
    """Return a detail with its beginning and end, if it is too long: one may repeat what a caller sent."""
    encoded = detail.encode(errors="replace")
    if len(encoded) <= MOST_DETAIL_BYTES:
        return detail
    half = MOST_DETAIL_BYTES // 2
    return f"{encoded[:half].decode(errors='ignore')} … {encoded[-half:].decode(errors='ignore')}"
