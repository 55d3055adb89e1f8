"""The hash chain of the audit log: its entries, and what is wrong with a chain."""

from freki.operators.audit_chain.chain import GENESIS, Event, hash_of, link, signed
from freki.operators.audit_chain.check import ChainReport, FaultKind, check_chains, cut_off

__all__ = [
    "GENESIS",
    "ChainReport",
    "Event",
    "FaultKind",
    "check_chains",
    "cut_off",
    "hash_of",
    "link",
    "signed",
]
