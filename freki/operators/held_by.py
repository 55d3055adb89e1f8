"""Which holds keep a document."""

from collections.abc import Iterable, Mapping

from freki.schemas import DocumentId, Hold, TenantId


def held_by(
    holds: Iterable[Hold], tenant: TenantId, document_id: DocumentId, attributes: Iterable[Mapping[str, str]]
) -> tuple[str, ...]:
    """Return the names of the holds that cover a document, sorted; none: it is free.

    attributes: of each known version; a hold on one of them holds the document, so that a change of attributes does
    not free it.
    """
    known = [*attributes] or [{}]
    return tuple(
        sorted(
            hold.name
            for hold in holds
            if hold.tenant == tenant and any(hold.covers.has(document_id, each) for each in known)
        )
    )
