"""How much the calls may hold that carry no document, and so need no right to publish."""

from typing import Final

MOST_QUERY_BYTES: Final = 16_000_000
"""Most bytes: a text of a million characters takes 12,000,000 where JSON escapes them all, other fields few."""
MOST_VALUES: Final = 20_000
"""Most values: a query with all filters and values that it may have holds about 8,500, and JSON as many commas."""
TOO_LARGE: Final = f"at most {MOST_QUERY_BYTES} bytes: only calls that publish a document may be larger"
TOO_MANY_VALUES: Final = f"at most {MOST_VALUES} values"
