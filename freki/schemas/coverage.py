"""Which documents of a tenant an erasure, a hold or an objection is about."""

from collections.abc import Mapping
from dataclasses import field, replace

from freki.schemas.names import DocumentId, record


@record
class Coverage:
    """Documents of a tenant, in one of three ways: by id, by attributes, or all of the tenant."""

    documents: tuple[DocumentId, ...] = ()
    """Those with these ids."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Those with all of these attributes."""
    whole_tenant: bool = False
    """All of the tenant, also those that are published later."""

    def has(self, document_id: DocumentId, attributes: Mapping[str, str]) -> bool:
        """Return whether a document with these attributes is covered; an empty coverage covers nothing."""
        return (
            self.whole_tenant
            or document_id in self.documents
            or (bool(self.attributes) and self.attributes.items() <= attributes.items())
        )

    def beyond(self, other: "Coverage") -> "Coverage":
        """Return what is named here and not covered by another coverage of the tenant; empty: it covers all of this."""
        has_wider_attributes = bool(other.attributes) and other.attributes.items() <= self.attributes.items()
        if other.whole_tenant or has_wider_attributes:
            return Coverage()
        return replace(self, documents=tuple(each for each in self.documents if each not in other.documents))

    @property
    def ways(self) -> int:
        """How many of the three ways are used; exactly one may be."""
        return bool(self.documents) + bool(self.attributes) + self.whole_tenant

    def __str__(self) -> str:
        if self.whole_tenant:
            return "all of the tenant"
        attributes = [f"{key}={value}" for key, value in sorted(self.attributes.items())]
        return ", ".join([*self.documents, *attributes])
