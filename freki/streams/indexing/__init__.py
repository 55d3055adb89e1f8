"""Writes revisions to the store by the commit protocol of docs/commit-protocol.md."""

from freki.streams.indexing.indexer import Indexer
from freki.streams.indexing.pieces import MissingPartsError, Part

__all__ = ["Indexer", "MissingPartsError", "Part"]
