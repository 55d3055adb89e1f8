"""Documents of a set to publish, and their tenant, chosen so that indexed documents are not embedded again."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from freki.operators.identify import root_id
from freki.schemas import EVERYONE, DocumentChange, Operation, RootId, TenantId, Timestamp
from freki.schemas.evaluation import CorpusDocument
from freki.schemas.index import Root
from freki.streams.ingest.chunk import content_hash


def fingerprint_of(corpus: Iterable[CorpusDocument]) -> str:
    """Return a fingerprint of all documents, 16 hexadecimal digits."""
    return _digest(
        *sorted((each.document_id, each.name, each.media_type, content_hash(each.content)) for each in corpus)
    )


def tenant_of(fingerprint: str, pipeline: Sequence[str]) -> TenantId:
    """Return the tenant of a corpus indexed by a pipeline; any other corpus or pipeline has another tenant.

    pipeline: fingerprints of all that determines an index.
    """
    return TenantId(f"eval-{_digest(fingerprint, *pipeline)}")


def roots_of(corpus: Iterable[CorpusDocument], tenant: TenantId) -> dict[RootId, CorpusDocument]:
    """Return the documents by their keys in the store."""
    return {root_id(tenant, document.document_id): document for document in corpus}


def missing(
    wanted: Mapping[RootId, CorpusDocument], indexed: Mapping[RootId, Root], *, tenant: TenantId, now: Timestamp
) -> list[DocumentChange]:
    """Return the changes that complete the index; documents indexed with the same content need none."""
    return [
        change_of(document, tenant, now)
        for key, document in wanted.items()
        if key not in indexed or indexed[key].deleted or indexed[key].content_hash != content_hash(document.content)
    ]


def change_of(document: CorpusDocument, tenant: TenantId, now: Timestamp) -> DocumentChange:
    """Return the change that publishes a document, readable by everyone."""
    return DocumentChange(
        tenant=tenant,
        document_id=document.document_id,
        operation=Operation.UPSERT,
        version=now,
        occurred_at=now,
        name=document.name,
        media_type=document.media_type,
        principals=(EVERYONE,),
        content=document.content,
    )


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
