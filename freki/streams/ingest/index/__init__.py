"""Index writes by the commit protocol of docs/commit-protocol.md."""

from freki.streams.ingest.index.indexer import Indexer, IndexRules
from freki.streams.ingest.index.pieces import MissingPartsError, ReceivedPart

__all__ = ["IndexRules", "Indexer", "MissingPartsError", "ReceivedPart"]
