"""Selection of documents of an index."""

from collections.abc import Mapping

from freki.schemas.index.search import Exclusions
from freki.schemas.names import TenantId, record


@record
class Selection:
    """Conditions that documents meet all of; a condition that is left out is met by every document."""

    tenant: TenantId
    prefix: str = ""
    """Beginning of the document id."""
    source: str = ""
    """Beginning of the source URI."""
    language: str = ""
    principals: tuple[str, ...] = ()
    """Of whom any may read the document; `everyone` only where the document names it."""
    attributes: Mapping[str, str] | None = None
    """Values that attributes have."""
    deleted: bool = False
    """Whether deleted documents are selected instead of live ones."""
    asker: tuple[str, ...] | None = None
    """Principals of who asks, who must be allowed to read the document; None: an operator, who sees all."""
    left_out: Exclusions = Exclusions()
    """Documents that are not selected, because of objections; an operator sees all."""
    not_made_by: frozenset[str] = frozenset()
    """Fingerprints that the document does not have; none: any fingerprint will do."""
