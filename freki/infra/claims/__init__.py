"""Claim checks: content too large for a record is stored outside of the stream and referenced by a claim."""

from freki.infra.claims.store import ClaimStore

__all__ = ["ClaimStore"]
