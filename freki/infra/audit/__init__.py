"""The audit log outside: files of chains."""

from freki.infra.audit.files import LeftChain, create_chain, left_chains, read_chains, remove_expired, sent_marks

__all__ = [
    "LeftChain",
    "create_chain",
    "left_chains",
    "read_chains",
    "remove_expired",
    "sent_marks",
]
