"""`python -m bench.audit`: delete, alter and reorder entries of a signed log of 100,000; is each damage named?

Makes the log in a file as workers do, with a signature after every 1,000 entries. Each round damages a copy in one
place, chosen at random, and runs the check of `freki audit verify` on it.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from rich.console import Console

from freki.infra.audit import create_chain, read_chains
from freki.infra.signing import SigningKey, make_key
from freki.operators.audit_chain import GENESIS, ChainReport, Event, check_chains, link, signed
from freki.schemas import AuditedDocument, AuditEntry, AuditKind, DocumentId, TenantId, Timestamp
from freki.schemas.audit_lines import NotAnEntry

ANCHOR_ENTRIES = 1_000
BATCH = 1_000
console = Console(highlight=False, soft_wrap=True)
Damage = Callable[[list[AuditEntry], int], None]


def written(folder: Path, key: SigningKey, count: int) -> None:
    """Write a chain of so many entries to a file."""
    file, previous, batch = create_chain(folder, "0001700000000000-aa"), GENESIS, list[AuditEntry]()
    for sequence in range(count):
        event = Event(
            kind=_kind(sequence, count),
            tenant=TenantId("amt"),
            asker=f"user-{sequence % 97}",
            documents=(AuditedDocument(document_id=DocumentId(f"akte/{sequence}"), version=1),),
        )
        at = Timestamp(1_700_000_000_000 + sequence)
        entry = signed(link(event, writer=file.writer, sequence=sequence, at=at, previous=previous), key.sign)
        previous = entry.hash
        batch.append(entry)
        if len(batch) == BATCH:
            file.append(batch)
            batch = []
    file.append(batch)
    file.close()


def _kind(sequence: int, count: int) -> AuditKind:
    if sequence == count - 1:
        return AuditKind.CLOSED
    is_anchor = sequence % ANCHOR_ENTRIES == ANCHOR_ENTRIES - 1
    return AuditKind.OPENED if sequence == 0 else AuditKind.ANCHOR if is_anchor else AuditKind.ASKED


def deleted(entries: list[AuditEntry], at: int) -> None:
    """Take an entry out."""
    del entries[at]


def altered(entries: list[AuditEntry], at: int) -> None:
    """Let an entry tell another asker."""
    entries[at] = replace(entries[at], asker="nobody")


def reordered(entries: list[AuditEntry], at: int) -> None:
    """Move an entry to a place far away."""
    entry = entries.pop(at)
    entries.insert((at + len(entries) // 2) % (len(entries) - 1), entry)


DAMAGES: dict[str, Damage] = {"deleted": deleted, "altered": altered, "reordered": reordered}


def is_named(report: ChainReport, at: int) -> bool:
    """Return whether a fault is told of the damaged entry, and none of others."""
    return {number for fault in report.faults for number in range(fault.first, fault.last + 1)} == {at}


def checked(entries: Sequence[AuditEntry], key: SigningKey) -> ChainReport:
    """Check one chain."""
    (report,) = check_chains(entries, verify=key.verify)
    return report


def main() -> None:
    """Damage the log in each way; print what was named, and times. Exit code 1 if any was not."""
    parser = argparse.ArgumentParser(prog="python -m bench.audit", description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5, help="of each kind of damage")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = random.Random(given.seed)  # noqa: S311 - places of damage
    with tempfile.TemporaryDirectory(prefix="freki-audit-") as folder:
        key = make_key(Path(folder) / "audit.key")
        began = time.perf_counter()
        written(Path(folder) / "log", key, given.entries)
        console.print(f"{given.entries:,} entries written in {time.perf_counter() - began:.1f} s")
        began = time.perf_counter()
        found = [entry for _, entry in read_chains([Path(folder) / "log"])]
        entries = [entry for entry in found if not isinstance(entry, NotAnEntry)]
        report = checked(entries, key)
        console.print(f"read and verified in {time.perf_counter() - began:.1f} s: {len(report.faults)} faults")
    missed = len(report.faults) + len(found) - len(entries)
    for name, damage in DAMAGES.items():
        times = list[float]()
        named = 0
        for _ in range(given.rounds):
            at, copy = chance.randrange(1, given.entries - 2), list(entries)
            damage(copy, at)
            began = time.perf_counter()
            named += is_named(checked(copy, key), at)
            times.append(time.perf_counter() - began)
        missed += given.rounds - named
        console.print(f"{name}: {named} of {given.rounds} named by sequence, check {median(times):.1f} s")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
