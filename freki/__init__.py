"""Freki keeps a search index true to a stream of document changes and answers context queries from it."""

__version__ = "0.1.0"
