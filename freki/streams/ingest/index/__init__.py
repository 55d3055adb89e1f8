"""Index writes by the commit protocol of docs/commit-protocol.md."""

from freki.streams.ingest.index.indexer import BeforeCommit, Indexer
from freki.streams.ingest.index.pieces import ReceivedPart
from freki.streams.ingest.index.rules import IndexRules

__all__ = ["BeforeCommit", "IndexRules", "Indexer", "ReceivedPart"]
