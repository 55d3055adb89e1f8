"""The hash chain of the audit log: its entries, their bytes, and what is wrong with a chain."""

from freki.operators.audit_chain.chain import GENESIS, Event, hash_of, is_sound, link, signed
from freki.operators.audit_chain.check import ChainReport, Fault, FaultKind, check_chains
from freki.operators.audit_chain.lines import entry_of, line_of

__all__ = [
    "GENESIS",
    "ChainReport",
    "Event",
    "Fault",
    "FaultKind",
    "check_chains",
    "entry_of",
    "hash_of",
    "is_sound",
    "line_of",
    "link",
    "signed",
]
