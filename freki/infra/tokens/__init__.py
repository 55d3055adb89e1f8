"""Tokens of those who ask: public keys of their issuer, and verification of signatures."""

from freki.infra.tokens.keys import KeySet
from freki.infra.tokens.source import TokenFile
from freki.infra.tokens.verifier import JwtVerifier

__all__ = ["JwtVerifier", "KeySet", "TokenFile"]
