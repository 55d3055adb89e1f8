"""Chains of audit entries: whatever is deleted, altered or moved is named."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.audit_chain import (
    GENESIS,
    ChainReport,
    Event,
    FaultKind,
    check_chains,
    hash_of,
    link,
    signed,
)
from freki.schemas import AuditedDocument, AuditEntry, AuditKind, ChainEnd, DocumentId, TenantId, Timestamp
from freki.schemas.audit_lines import NotAnEntry, canonical, entry_of, line_of
from freki.schemas.avro import Codec

WRITER = "0001700000000000-aa"


def sign(message: bytes) -> str:
    return sha256(b"secret" + message).hexdigest()


def verify(message: bytes, signature: str) -> bool:
    return sign(message) == signature


def chain(count: int, *, writer: str = WRITER, every: int = 10, opened: Event | None = None) -> list[AuditEntry]:
    """Give a chain of `count` entries, every tenth of them an anchor, the last one its end."""
    entries: list[AuditEntry] = []
    previous = GENESIS
    for sequence in range(count):
        kind = AuditKind.ANCHOR if sequence % every == every - 1 else AuditKind.ASKED
        kind = AuditKind.CLOSED if sequence == count - 1 else kind
        event = Event(kind=kind, tenant=TenantId("amt"), asker="ada", documents=(document(f"doc/{sequence}"),))
        event = opened if opened is not None and sequence == 0 else event
        entry = signed(link(event, writer=writer, sequence=sequence, at=Timestamp(sequence), previous=previous), sign)
        previous = entry.hash
        entries.append(entry)
    return entries


def document(name: str) -> AuditedDocument:
    return AuditedDocument(document_id=DocumentId(name), version=3)


def checked(entries: Sequence[AuditEntry]) -> ChainReport:
    (report,) = check_chains(entries, verify=verify)
    return report


def named(report: ChainReport) -> dict[int, FaultKind]:
    return {number: fault.kind for fault in report.faults for number in range(fault.first, fault.last + 1)}


@given(st.integers(1, 60))
def test_a_whole_chain_has_no_fault(count: int) -> None:
    report = checked(chain(count))

    assert report.faults == ()
    assert (report.entries, report.last, report.is_closed, report.anchored) == (count, count - 1, True, count - 1)


@given(st.data())
def test_every_entry_that_is_deleted_before_the_last_one_left_is_named(data: st.DataObject) -> None:
    entries = chain(data.draw(st.integers(2, 60)))
    gone = data.draw(st.sets(st.integers(0, len(entries) - 2), min_size=1))

    report = checked([entry for entry in entries if entry.sequence not in gone])

    assert {number for number, kind in named(report).items() if kind is FaultKind.MISSING} == gone
    assert set(named(report)) == gone


CHANGES = st.sampled_from(
    [
        {"asker": "eve"},
        {"tenant": TenantId("other")},
        {"at": Timestamp(7_000_000)},
        {"kind": AuditKind.DELETED},
        {"documents": ()},
        {"principals": ("board",)},
        {"principals_before": ("board",)},
        {"subject": "other"},
        {"text": "Was?"},
        {"text_hash": "00"},
        {"reason": "EXPIRED"},
        {"previous": "f" * 64},
        {"continues": (ChainEnd(writer=WRITER, sequence=0, hash="0"),)},
        {"hash": "0" * 64},
    ]
)


@given(st.data(), CHANGES, st.booleans())
def test_every_entry_that_is_altered_is_named_also_with_a_hash_to_match(
    data: st.DataObject, change: dict[str, Any], rehashed: object
) -> None:
    entries = chain(data.draw(st.integers(2, 60)))
    place = data.draw(st.integers(0, len(entries) - 2))
    forged = replace(entries[place], **change)
    forged = replace(forged, hash=hash_of(forged)) if rehashed and "hash" not in change else forged
    entries[place] = forged

    assert named(checked(entries))[place] is FaultKind.ALTERED


@given(st.data())
def test_who_hashes_the_rest_of_the_chain_anew_is_found_by_the_next_signature(data: st.DataObject) -> None:
    entries = chain(data.draw(st.integers(2, 60)))
    place = data.draw(st.integers(0, len(entries) - 2))
    forged = entries[:place]
    for entry in entries[place:]:
        other = replace(entry, asker="eve", previous=forged[-1].hash if forged else GENESIS)
        forged.append(replace(other, hash=hash_of(other)))

    report = checked(forged)

    anchor = next(entry.sequence for entry in entries[place:] if entry.signature)
    assert named(report)[anchor] is FaultKind.ALTERED
    assert report.anchored < place


@given(st.data())
def test_entries_that_change_places_are_named(data: st.DataObject) -> None:
    entries = chain(data.draw(st.integers(2, 60)))
    one, other = sorted(data.draw(st.sets(st.integers(0, len(entries) - 1), min_size=2, max_size=2)))
    entries[one], entries[other] = entries[other], entries[one]

    found = named(checked(entries))

    assert set(found.values()) == {FaultKind.REORDERED}
    assert set(found) & {one, other}


@given(st.data())
def test_an_entry_that_was_moved_alone_is_the_one_that_is_named(data: st.DataObject) -> None:
    entries = chain(data.draw(st.integers(4, 60)))
    source = data.draw(st.integers(0, len(entries) - 1))
    moved = entries.pop(source)
    target = data.draw(st.integers(0, len(entries)).filter(lambda place: abs(place - source) > 1))
    entries.insert(target, moved)

    assert named(checked(entries)) == {source: FaultKind.REORDERED}


@given(st.data())
def test_a_batch_that_is_sent_again_is_no_fault(data: st.DataObject) -> None:
    entries = chain(data.draw(st.integers(2, 60)))
    start = data.draw(st.integers(0, len(entries) - 1))
    end = data.draw(st.integers(start, len(entries)))

    assert checked([*entries[:end], *entries[start:]]).faults == ()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("entries", "place"), [(20_000, 9_999), (2_000, 0), (2_000, 1), (2_000, 1_998)])
def test_one_entry_that_is_deleted_altered_or_moved_is_named(entries: int, place: int) -> None:
    whole = chain(entries, every=1000)
    deleted = whole[:place] + whole[place + 1 :]
    altered = [*whole[:place], replace(whole[place], asker="eve"), *whole[place + 1 :]]
    moved = [*deleted[:777], whole[place], *deleted[777:]]

    assert named(checked(deleted)) == {place: FaultKind.MISSING}
    assert named(checked(altered)) == {place: FaultKind.ALTERED}
    assert named(checked(moved)) == {place: FaultKind.REORDERED}


def test_a_tail_that_is_cut_off_before_a_known_anchor_is_named() -> None:
    entries = chain(30)

    assert named(checked([*entries[:12], entries[19]])) == dict.fromkeys(range(12, 19), FaultKind.MISSING)


def test_a_tail_that_a_later_writer_saw_is_named_and_a_chain_without_end_is_told() -> None:
    entries = chain(30)
    end = ChainEnd(writer=WRITER, sequence=29, hash=entries[-1].hash)
    later = chain(3, writer="0001700000000001-bb", opened=Event(kind=AuditKind.OPENED, continues=(end,)))

    first, second = check_chains([*entries[:25], *later], verify=verify)

    assert named(first) == dict.fromkeys(range(25, 30), FaultKind.MISSING)
    assert (first.is_closed, second.is_closed, second.faults) == (False, True, ())
    whole, _ = check_chains(later, verify=verify)
    assert named(whole) == dict.fromkeys(range(30), FaultKind.MISSING)


def test_the_beginning_of_an_old_chain_may_be_past_its_retention() -> None:
    entries = chain(30)[12:]

    (kept,) = check_chains(entries, verify=verify, kept_since=Timestamp(1_700_000_000_001))
    (missing,) = check_chains(entries, verify=verify, kept_since=Timestamp(1_700_000_000_000))

    assert (kept.expired, kept.faults) == (12, ())
    assert named(missing) == dict.fromkeys(range(12), FaultKind.MISSING)


def test_what_is_cut_off_an_old_chain_is_missing_as_far_as_another_place_has_to_have_it() -> None:
    entries = chain(30)
    known = [ChainEnd(writer=WRITER, sequence=at, hash=entries[at].hash) for at in (8, 29)]

    (report,) = check_chains(entries[12:], verify=verify, kept_since=Timestamp(1_700_000_000_001), known=known)

    assert (report.expired, named(report)) == (8, dict.fromkeys(range(8, 12), FaultKind.MISSING))


@given(st.text(), st.text())
def test_a_line_is_an_entry_again(asker: str, text: str) -> None:
    event = Event(kind=AuditKind.ASKED, asker=asker, text=text, documents=(document("a"),))
    entry = link(event, writer=WRITER, sequence=0, at=Timestamp(1), previous=GENESIS)

    assert entry_of(line_of(entry)) == entry
    assert "\n" not in line_of(entry)


def test_a_line_has_every_field_of_all_that_an_entry_names() -> None:
    end = ChainEnd(writer="0001-bb", sequence=7, hash="ab" * 32)
    event = Event(kind=AuditKind.OPENED, principals=("hr",), documents=(document("a"),), continues=(end,))
    entry = link(event, writer=WRITER, sequence=0, at=Timestamp(1), previous=GENESIS)

    assert line_of(entry) == canonical(asdict(entry))


def test_no_sender_makes_an_entry_that_the_topic_does_not_take() -> None:
    long = ["ä" * 100_000, *(f"group-{number}" for number in range(100_000))]
    event = Event(
        kind=AuditKind.ASKED,
        tenant=TenantId(long[0]),
        asker=long[0],
        subject=long[0],
        principals=tuple(long),
        principals_before=tuple(long[::-1]),
        documents=tuple(document(name) for name in long),
        text=long[0] * 10,
        reason=long[0],
    )

    entry = link(event, writer=WRITER, sequence=0, at=Timestamp(1), previous=GENESIS)

    assert len(Codec(AuditEntry).encode(entry)) < 500_000
    assert entry.principals[1:3] == ("group-0", "group-1")
    assert "more names, SHA-256 of all " in entry.principals[-1]
    assert "more documents, SHA-256 of all " in entry.documents[-1].document_id
    assert entry_of(line_of(entry)) == entry == Codec(AuditEntry).decode(Codec(AuditEntry).encode(entry))


@pytest.mark.parametrize("line", ["", "{}", "[]", "null", "nonsense", '{"documents": 3}', b"\xff", "[" * 100_000])
def test_what_is_no_entry_is_refused(line: str | bytes) -> None:
    with pytest.raises(NotAnEntry):
        entry_of(line)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, value) for field in ("signature", "hash", "previous", "tenant") for value in (None, 5, ["a"])),
        *(("writer", value) for value in (5, [1], "\ud800")),
        *((field, value) for field in ("sequence", "at") for value in (None, "x", 1.5, True, 2**63)),
        *(("principals", value) for value in ([1], [["a"]], ["\ud800"])),
        ("documents", [{"document_id": 5, "version": 1}]),
        ("documents", [{"document_id": "a", "version": "x"}]),
        ("continues", [{"writer": [], "sequence": 1, "hash": "ab"}]),
    ],
)
def test_a_line_whose_fields_are_of_other_kinds_is_no_entry(field: str, value: object) -> None:
    said = json.loads(line_of(chain(1)[0]))

    with pytest.raises(NotAnEntry):
        entry_of(canonical({**said, field: value}))


def test_an_entry_in_another_form_is_refused() -> None:
    line = line_of(chain(1)[0])

    with pytest.raises(NotAnEntry, match="canonical"):
        entry_of(line.replace(",", ", ", 1))
