"""The audit log outside: files of chains."""

from freki.infra.audit.files import ChainFile, LeftChain, create_chain, left_chains, read_chains, remove_expired

__all__ = [
    "ChainFile",
    "LeftChain",
    "create_chain",
    "left_chains",
    "read_chains",
    "remove_expired",
]
