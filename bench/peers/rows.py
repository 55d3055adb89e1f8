"""Read all rows of a collection, independent of the framework."""

from collections.abc import Iterator, Sequence
from typing import Any

_PAGE = 1000


def stored_rows(
    client: Any,  # noqa: ANN401 - peers bring different versions of pymilvus
    collection: str,
    *,
    source: str,
    text: str,
    others: Sequence[str] = (),
) -> Iterator[tuple[str, ...]]:
    """Yield document, text and further fields of each row."""
    fields = [source, text, *others]
    pages = client.query_iterator(collection, filter="", output_fields=fields, batch_size=_PAGE)
    while page := pages.next():
        yield from (tuple(row[field] for field in fields) for row in page)
    pages.close()
