"""The audit log outside: files of chains, and keys that sign them."""

from freki.infra.audit.files import ChainFile, LeftChain, create_chain, left_chains, read_chains, remove_expired
from freki.infra.audit.keys import SigningKey, make_key, read_verifier

__all__ = [
    "ChainFile",
    "LeftChain",
    "SigningKey",
    "create_chain",
    "left_chains",
    "make_key",
    "read_chains",
    "read_verifier",
    "remove_expired",
]
