"""Content that is too large for a record: written beside the stream, read back by its claim check."""

from freki.infra.claims.store import ClaimStore

__all__ = ["ClaimStore"]
