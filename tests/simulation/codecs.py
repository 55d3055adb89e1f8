"""The codecs of all records. A record is decoded many times: by each lane, each reader, and the checker."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from freki.schemas import ChunkBatch, ContextQuery, ContextResult, ContextualChunkBatch, DocumentChange, IndexOutcome
from freki.schemas.avro import Codec


def _remembering(record: type[Any]) -> Codec[Any]:
    codec: Codec[Any] = Codec(record)
    # Records are never changed, so whoever decodes the same bytes may have the same one.
    codec.decode = lru_cache(maxsize=2_000)(codec.decode)  # type: ignore[method-assign]
    return codec


CODECS: Mapping[type[Any], Codec[Any]] = {
    record: _remembering(record)
    for record in (DocumentChange, ChunkBatch, ContextualChunkBatch, IndexOutcome, ContextQuery, ContextResult)
}
