"""What is missing, altered or out of order in chains of entries."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise

from freki.operators.audit_chain.chain import GENESIS, is_sound
from freki.schemas.audit_entry import SIGNED, AuditEntry, AuditKind, ChainEnd
from freki.schemas.names import Timestamp, record

Verify = Callable[[bytes, str], bool]
"""Returns whether a signature in hexadecimal is that of these bytes."""


class FaultKind(StrEnum):
    """What is wrong with entries."""

    MISSING = "MISSING"
    ALTERED = "ALTERED"
    """It does not say what it said when it was written, or is none of the writer's."""
    REORDERED = "REORDERED"


@record
class Fault:
    """Consecutive entries of a writer, and what is wrong with them."""

    kind: FaultKind
    writer: str
    first: int
    last: int
    """Both inclusive, by sequence."""
    detail: str


@record
class ChainReport:
    """State of the chain of one writer."""

    writer: str
    entries: int
    """Found ones, each once."""
    last: int
    """Sequence of the last one."""
    anchors: int
    """Valid signatures."""
    anchored: int
    """Sequence of the last entry that a valid signature covers; -1: none."""
    is_closed: bool
    """Whether it has its end; otherwise its writer runs, was killed, or what follows is cut off."""
    expired: int
    """Entries at its beginning that are past their retention."""
    faults: tuple[Fault, ...]


def cut_off(reports: Sequence[ChainReport], sent: Mapping[str, int]) -> list[ChainReport]:
    """Return the reports, by writer, with a fault for each chain that lacks its last entries, or all.

    sent: by writer, the last sequence that it noted as sent to the topic, which it wrote to its file before.
    """
    found = {each.writer: each for each in reports}
    for writer, last in sent.items():
        report = found.get(writer) or _nothing_of(writer)
        if report.last < last:
            detail = "they were sent to the topic, and are not in the file any more"
            fault = Fault(kind=FaultKind.MISSING, writer=writer, first=report.last + 1, last=last, detail=detail)
            found[writer] = replace(report, faults=(*report.faults, fault))
    return [found[writer] for writer in sorted(found)]


def _nothing_of(writer: str) -> ChainReport:
    return ChainReport(writer=writer, entries=0, last=-1, anchors=0, anchored=-1, is_closed=False, expired=0, faults=())


def check_chains(
    entries: Iterable[AuditEntry],
    *,
    verify: Verify | None,
    kept_since: Timestamp | None = None,
    known: Iterable[ChainEnd] = (),
) -> list[ChainReport]:
    """Return the state of each chain, by writer, of entries in the order of their place.

    An entry that comes again, unchanged, counts at its last place: a batch whose delivery failed is sent again. verify:
    None: signatures are not checked. kept_since: what was written before may be gone from the beginning of a chain.
    known: entries that this place must have too, of chains that are among these.
    """
    since = Timestamp(0) if kept_since is None else kept_since
    chains: dict[str, list[AuditEntry]] = {}
    ends: dict[str, list[ChainEnd]] = {}
    for entry in entries:
        chains.setdefault(entry.writer, []).append(entry)
        for end in entry.continues:
            ends.setdefault(end.writer, []).append(end)
    for writer in ends:
        # An end that another chain names, without any entry: all of them are missing.
        chains.setdefault(writer, [])
    for end in known:
        if end.writer in chains:
            ends.setdefault(end.writer, []).append(end)
    return [_check(writer, chains[writer], ends.get(writer, []), verify, since) for writer in sorted(chains)]


def _check(
    writer: str, found: Sequence[AuditEntry], ends: Sequence[ChainEnd], verify: Verify | None, kept_since: Timestamp
) -> ChainReport:
    altered: dict[int, str] = {}
    last_places: dict[int, int] = {}
    by_sequence: dict[int, AuditEntry] = {}
    for place, entry in enumerate(found):
        other = by_sequence.get(entry.sequence)
        if not is_sound(entry):
            altered.setdefault(entry.sequence, "its hash is not that of what it says")
        if other is not None and other != entry:
            altered.setdefault(entry.sequence, "two entries have this place")
        if other is None or is_sound(entry) or not is_sound(other):
            by_sequence[entry.sequence] = entry
        last_places[entry.sequence] = place
    numbers = sorted(by_sequence)
    for number, then in pairwise(numbers):
        if then == number + 1 and by_sequence[then].previous != by_sequence[number].hash:
            _blame(altered, number, then, "the next entry was chained to another one")
    if numbers and numbers[0] == 0 and by_sequence[0].previous != GENESIS:
        altered.setdefault(0, "a chain does not begin so")
    anchored, anchors = _check_signatures(by_sequence, numbers, altered, verify)
    for end in ends:
        there = by_sequence.get(end.sequence)
        if there is not None and there.hash != end.hash:
            altered.setdefault(end.sequence, "another one was known")
    missing, expired = _gaps(by_sequence, numbers, ends, kept_since)
    faults = [
        *(Fault(kind=FaultKind.MISSING, writer=writer, first=a, last=b, detail=why) for a, b, why in missing),
        *(
            Fault(kind=FaultKind.ALTERED, writer=writer, first=number, last=number, detail=altered[number])
            for number in sorted(altered)
        ),
        *(
            Fault(kind=FaultKind.REORDERED, writer=writer, first=number, last=number, detail="it has another place")
            for number in _displaced(sorted(last_places, key=last_places.__getitem__))
        ),
    ]
    last = numbers[-1] if numbers else -1
    return ChainReport(
        writer=writer,
        entries=len(numbers),
        last=last,
        anchors=anchors,
        anchored=anchored,
        is_closed=last >= 0 and by_sequence[last].kind is AuditKind.CLOSED and last not in altered,
        expired=expired,
        faults=tuple(sorted(faults, key=lambda fault: (fault.first, fault.kind))),
    )


def _blame(altered: dict[int, str], number: int, then: int, why: str) -> None:
    """Of two entries that do not fit, blame the first, unless one of them is known to be altered."""
    if number not in altered and then not in altered:
        altered[number] = why


def _check_signatures(
    by_sequence: dict[int, AuditEntry], numbers: Sequence[int], altered: dict[int, str], verify: Verify | None
) -> tuple[int, int]:
    """Return the last entry that a valid signature covers, -1 if none, and the number of valid ones."""
    anchored, anchors = -1, 0
    for number in numbers:
        entry = by_sequence[number]
        if entry.kind not in SIGNED:
            if entry.signature:
                altered.setdefault(number, "it has a signature, which its kind has not")
        elif verify is not None and not verify(entry.hash.encode("ascii", "replace"), entry.signature):
            altered.setdefault(
                number, "its signature is not that of this key: what follows the last valid one may be forged"
            )
        elif verify is not None and number not in altered:
            anchored, anchors = number, anchors + 1
    return anchored, anchors


def _gaps(
    by_sequence: dict[int, AuditEntry], numbers: Sequence[int], ends: Sequence[ChainEnd], kept_since: Timestamp
) -> tuple[list[tuple[int, int, str]], int]:
    """Return first, last and reason of what is missing, and how many at the beginning are past their retention."""
    gaps: list[tuple[int, int, str]] = []
    expired = 0
    if numbers and numbers[0] > 0:
        if begun_at(by_sequence[numbers[0]].writer) < kept_since:
            expired = min([numbers[0], *(end.sequence for end in ends)])
            if expired < numbers[0]:
                gaps.append((expired, numbers[0] - 1, "they were known"))
        else:
            gaps.append((0, numbers[0] - 1, "the chain begins later"))
    gaps += [
        (number + 1, then - 1, "the chain goes on after it") for number, then in pairwise(numbers) if then > number + 1
    ]
    last = numbers[-1] if numbers else -1
    known = max((end.sequence for end in ends), default=-1)
    if known > last and (numbers or all(begun_at(end.writer) >= kept_since for end in ends)):
        gaps.append((last + 1, known, "they were known"))
    return gaps, expired


def begun_at(writer: str) -> Timestamp:
    """Return when a writer began, as its name says; 0 for a name that does not."""
    digits = writer.partition("-")[0]
    return Timestamp(int(digits)) if digits.isascii() and digits.isdigit() else Timestamp(0)


def _displaced(sequence: Sequence[int]) -> list[int]:
    """Return the fewest numbers without which the others ascend: those outside of a longest ascending subsequence."""
    tails: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for place, number in enumerate(sequence):
        at = bisect_left(tails, number)
        before.append(places[at - 1] if at else -1)
        if at == len(tails):
            tails.append(number)
            places.append(place)
        else:
            tails[at], places[at] = number, place
    kept = set()
    place = places[-1] if places else -1
    while place >= 0:
        kept.add(sequence[place])
        place = before[place]
    return sorted(number for number in sequence if number not in kept)
