"""Compares what producers and askers sent with what they got, and with what the index holds in the end.

It knows topics and records, and nothing of how the pipeline works.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from freki.schemas import (
    ContextHit,
    ContextResult,
    DocumentChange,
    DocumentId,
    IndexOutcome,
    Operation,
    OutcomeStatus,
    TenantId,
    Timestamp,
    may_read,
)
from freki.streams.deliver.dead_letters import DeadLetter, from_record
from freki.streams.deliver.lanes import Lane, in_lane
from freki.streams.messages import VERSION_HEADER, edition_in, header
from tests.simulation.adapter import FinalState, Held
from tests.simulation.broker import Broker, Record
from tests.simulation.clients import Asked
from tests.simulation.codecs import CODECS
from tests.simulation.scenario import UNREADABLE

Key = tuple[TenantId, DocumentId]

_LIVE = {OutcomeStatus.INDEXED, OutcomeStatus.UNCHANGED}
_CHANGE, _OUTCOME, _RESULT = CODECS[DocumentChange], CODECS[IndexOutcome], CODECS[ContextResult]


class Violation(NamedTuple):
    """A promise that was not kept."""

    rule: str
    message: str


@dataclass(slots=True)
class Revision:
    """A version of a document, as its producer sent it."""

    content: str = ""
    """With single spaces between its words, as all texts that are compared; empty where it was never written."""
    principals: tuple[str, ...] = ()
    deleted: bool = False
    recorded_at: list[Timestamp] = field(default_factory=list)


@dataclass(slots=True)
class Published:
    """All that the topic ever said of a document."""

    revisions: dict[int, Revision] = field(default_factory=dict)
    tombstones: list[Timestamp] = field(default_factory=list)

    @property
    def last(self) -> tuple[int, Revision] | None:
        """Give the highest version, unless that is a deletion."""
        version = max(self.revisions, default=0)
        revision = self.revisions.get(version)
        return None if revision is None or revision.deleted else (version, revision)

    @property
    def may_be_live(self) -> bool:
        """Tell whether something of the last version was not recorded before every tombstone."""
        last = self.last
        return last is not None and all(at <= max(last[1].recorded_at) for at in self.tombstones)

    @property
    def may_be_gone(self) -> bool:
        """Tell whether it may have to be gone.

        Where a version was recorded before and after a tombstone, or in its millisecond, both may be.
        """
        last = self.last
        return last is None or any(at > min(last[1].recorded_at) for at in self.tombstones)


@dataclass(slots=True)
class _Sent:
    """A change as its record lies on the topic."""

    record: Record
    key: Key
    version: int
    """0: a tombstone without version."""


class Checker:
    """Reads all topics and gives what is wrong."""

    def __init__(self, broker: Broker, asked: Mapping[str, Asked], final: FinalState | None) -> None:
        self._broker = broker
        self._asked = asked
        self._final = final
        self._documents: defaultdict[Key, Published] = defaultdict(Published)
        self._sent: list[_Sent] = []
        self._junk: list[Record] = []
        self._letters = [from_record(record) for record in broker.everything("dead-letters")]
        self._buried = {(each.topic, each.partition, each.offset) for each in self._letters if _is_of_own_lane(each)}
        self._unsure: set[Key] = set()
        """Documents of which a change was buried because nobody could read it at the time."""
        for record in broker.everything("documents"):
            self._read(record)
        self._outcomes = [
            (record, _OUTCOME.decode(record.value)) for record in broker.everything("outcomes") if record.value
        ]

    def violations(self) -> Iterator[Violation]:
        """Check all rules."""
        yield from self._answers()
        yield from self._receipts()
        if self._final is not None:
            yield from self._end(self._final)

    def _read(self, record: Record) -> None:
        key = (record.key or b"").decode(errors="replace")
        tenant, slash, document = key.partition("/")
        if not slash or document.startswith("junk"):
            self._junk.append(record)
            return
        which = (TenantId(tenant), DocumentId(document))
        published, at = self._documents[which], Timestamp(record.timestamp_ms)
        if (record.topic, record.partition, record.offset) in self._buried:
            self._unsure.add(which)
        if record.value is None:
            version = int(header(record.headers, VERSION_HEADER) or b"0")
            if not version:
                published.tombstones.append(at)
            self._sent.append(_Sent(record, which, version))
            return
        change = _CHANGE.decode(record.value)
        revision = published.revisions.setdefault(change.version, Revision())
        if change.operation is Operation.DELETE:
            revision.deleted = True
        else:
            revision.content = _plain(change.content if isinstance(change.content, str) else "")
            revision.principals = change.principals
        revision.recorded_at.append(at)
        self._sent.append(_Sent(record, which, change.version))

    def _answers(self) -> Iterator[Violation]:
        """Check every answer, and that every question has one."""
        answered: set[str] = set()
        for record in self._broker.everything("contexts"):
            result = _RESULT.decode(record.value or b"")
            answered.add(result.query_id)
            asked = self._asked.get(result.query_id)
            if asked is None:
                yield Violation("answers", f"{result.query_id} was never asked")
            else:
                yield from self._answer(result, asked)
        for query_id, asked in self._asked.items():
            if asked.stored and query_id not in answered:
                yield Violation("unanswered", f"{query_id}, asked at {asked.query.asked_at}, has no answer")

    def _answer(self, result: ContextResult, asked: Asked) -> Iterator[Violation]:
        by_document: defaultdict[Key, list[ContextHit]] = defaultdict(list)
        for hit in result.hits:
            by_document[result.tenant, hit.document_id].append(hit)
        for key, hits in by_document.items():
            where = f"answer {result.query_id} quotes {key[0]}/{key[1]}"
            versions = sorted({hit.version for hit in hits})
            if len(versions) > 1:
                yield Violation("mixed", f"{where} at versions {versions}")
            for version in versions:
                revision = self._documents[key].revisions.get(version)
                if revision is None or not revision.content:
                    yield Violation("unknown", f"{where} at version {version}, which was never published")
                    continue
                if not may_read(asked.query.principals, revision.principals):
                    yield Violation("readers", f"{where} v{version}, which {asked.query.principals} may not read")
                texts = [text for hit in hits if hit.version == version for text in _texts(hit)]
                foreign = next((text for text in texts if text not in revision.content), None)
                if foreign is not None:
                    yield Violation("foreign", f"{where} v{version} with {foreign!r}, which is not in it")
                yield from self._fresh(where, key, version, revision, asked)

    def _fresh(self, where: str, key: Key, version: int, revision: Revision, asked: Asked) -> Iterator[Violation]:
        """Check a quoted version against the receipts that were there when the question was sent."""
        for record, outcome in self._outcomes:
            if record.order > asked.order or (outcome.tenant, outcome.document_id) != key:
                continue
            receipt = f"although {outcome.status} v{outcome.version} was reported before"
            if outcome.status in _LIVE and version < outcome.version:
                yield Violation("old", f"{where} v{version}, {receipt}")
            if outcome.status is OutcomeStatus.DELETED:
                is_bare = outcome.version == 0
                if version <= outcome.version or (is_bare and max(revision.recorded_at) < outcome.recorded_at):
                    yield Violation("deleted", f"{where} v{version}, {receipt}")

    def _receipts(self) -> Iterator[Violation]:
        """Check that every change has a receipt or a dead letter, and that no good one was refused."""
        told = {
            ((outcome.tenant, outcome.document_id), outcome.version, outcome.recorded_at)
            for _, outcome in self._outcomes
        }
        for sent in self._sent:
            place = (sent.record.topic, sent.record.partition, sent.record.offset)
            at = Timestamp(sent.record.timestamp_ms)
            if (sent.key, sent.version, at) not in told and place not in self._buried and not sent.record.compacted:
                yield Violation("no receipt", f"{sent.key[0]}/{sent.key[1]} v{sent.version} at offset {place}")
        for record in self._junk:
            if ("documents", record.partition, record.offset) not in self._buried and not record.compacted:
                yield Violation("no letter", f"junk {record.key!r} at offset {record.offset}")
        for _, outcome in self._outcomes:
            is_good = not outcome.document_id.startswith("junk") and UNREADABLE not in outcome.reason
            if outcome.status is OutcomeStatus.REJECTED and is_good:
                which = f"{outcome.tenant}/{outcome.document_id} v{outcome.version}"
                yield Violation("refused", f"{which}, a good change: {outcome.reason[:200]}")
        good = [letter for letter in self._letters if b"junk" not in (letter.key or b"junk")]
        for letter in good:
            if letter.message != UNREADABLE and letter.topic != "queries":
                yield Violation("buried", f"{letter.topic} {letter.key!r}: {letter.error}: {letter.message[:200]}")

    def _end(self, final: FinalState) -> Iterator[Violation]:
        """Check that the index equals the topic, and that nothing is left behind."""
        for key in sorted({*self._documents, *final.documents} - self._unsure):
            held, published = final.documents.get(key), self._documents[key]
            where, last = f"{key[0]}/{key[1]}", published.last
            if held is None or held.deleted:
                if last is not None and not published.may_be_gone:
                    yield Violation("lost", f"{where} v{last[0]} should be live, and is gone")
            elif last is None or not published.may_be_live:
                yield Violation("risen", f"{where} is live at v{held.version}, and should be gone")
            elif held.version != last[0]:
                yield Violation("outdated", f"{where} is live at v{held.version} instead of v{last[0]}")
            else:
                yield from _compared(where, held, last[1])
        if final.leftovers:
            yield Violation("leftovers", f"{len(final.leftovers)} are left: {', '.join(final.leftovers[:6])}")


def _is_of_own_lane(letter: DeadLetter) -> bool:
    """Tell whether the lane buried a record that would have taken it. Where both cannot read one, both bury it."""
    if letter.message != UNREADABLE or b"junk" in (letter.key or b"junk"):
        return True
    change = _CHANGE.decode(letter.value or b"")
    may_overtake = not edition_in(letter.headers)
    is_express = change.operation is Operation.DELETE or (may_overtake and change.priority > 0)
    return letter.stage == in_lane("chunk", Lane.EXPRESS if is_express else Lane.REGULAR)


def _compared(where: str, held: Held, revision: Revision) -> Iterator[Violation]:
    """Compare what is held of the right version with its content."""
    held_lines = Counter(line for text in held.texts for line in _sentences(_plain(text)))
    lines = Counter(_sentences(revision.content))
    absent = lines - held_lines
    if held.missing or absent:
        yield Violation("holes", f"{where} v{held.version} lacks {held.missing} rows or pages, {len(absent)} texts")
    if surplus := held_lines - lines:
        yield Violation("mixture", f"{where} v{held.version} holds {len(surplus)} texts of another version, or twice")
    if held.principals != revision.principals:
        yield Violation("rights", f"{where} v{held.version} is for {held.principals}, not {revision.principals}")


def _texts(hit: ContextHit) -> Sequence[str]:
    """Give all that an answer says of a document with a hit."""
    parts = [part.text for part in (hit.parent, *hit.before, *hit.after) if part is not None]
    return [line for text in (hit.text, *parts) for line in _sentences(_plain(text))]


def _plain(text: str) -> str:
    return " ".join(text.split())


def _sentences(text: str) -> list[str]:
    return [f"{sentence}." for sentence in text.rstrip(".").split(". ")] if text else []
