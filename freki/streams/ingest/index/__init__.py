"""Index writes by the commit protocol of docs/commit-protocol.md."""

from freki.streams.ingest.index.indexer import Indexer
from freki.streams.ingest.index.pieces import MissingPartsError, ReceivedPart
from freki.streams.ingest.index.rules import IndexRules

__all__ = ["IndexRules", "Indexer", "MissingPartsError", "ReceivedPart"]
