"""The chains of one process, a file each: entries are linked, written, then sent to the topic, in batches."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import structlog

from freki.client.tasks import cancel_and_wait
from freki.operators.audit_chain import GENESIS, Event, link, signed
from freki.schemas import AuditEntry, AuditKind, ChainEnd, Timestamp
from freki.schemas.errors import InfraError, Unavailable
from freki.schemas.names import record
from freki.streams.observe.meters import Meters

RETRY_S = 1.0
"""Wait before entries are sent again to a topic that did not take them, in seconds."""
ROTATION_RETRY_MS = 60_000
"""Wait before the next attempt to begin another file."""
_GIVEN = frozenset({AuditKind.ASKED, AuditKind.REPORTED})
WITHHELD = "withheld: the audit log could not be written"

_log = structlog.get_logger(__name__)


class AuditUnwritable(Unavailable):
    """An entry could not be written, so what it says must not happen."""

    gist = "the audit log cannot be written"


class ChainFile(Protocol):
    """The file of a writer. Blocking."""

    @property
    def writer(self) -> str:
        """Name of the writer."""

    def append(self, entries: Sequence[AuditEntry]) -> int:
        """Write entries to the disk, all or none, and return their bytes. Raises Unavailable."""

    def mark_sent(self, sequence: int) -> None:
        """Remember that the topic has all entries up to this one."""

    def close(self) -> None:
        """Let go of the file."""


NewFile = Callable[[], ChainFile]
"""Creates the file of a new writer. Blocking. Raises Misconfigured."""

Send = Callable[[Sequence[AuditEntry]], Awaitable[None]]
"""Sends entries to the topic, in order, and waits for the broker. Raises InfraError; any of them may be stored then."""


@record
class AuditRules:
    """How entries are written."""

    waits_for_topic: bool
    """An entry counts as written when the topic has it too; False: when the file has it."""
    buffer_bytes: int
    """Most that may wait for the topic, in bytes."""
    anchor_entries: int
    anchor_s: float
    rotation_ms: int
    """How long a file is written; then its chain ends, and another one begins, so that files can be removed."""
    plain_text: bool = False


class Signer(Protocol):
    """Key of the log."""

    def sign(self, message: bytes) -> str:
        """Return a signature in hexadecimal."""

    def hash_text(self, text: str) -> str:
        """Return a keyed hash of a text in hexadecimal."""


@dataclass(slots=True)
class _Waiting:
    """Events of one call, until they are written."""

    events: tuple[Event, ...]
    written: asyncio.Future[None]
    position: int = 0
    """Number of entries of this process up to the last of them."""


@dataclass(slots=True, frozen=True)
class _Batch:
    """Entries that the topic lacks."""

    entries: Sequence[AuditEntry]
    file: ChainFile
    size: int
    """Bytes in the file."""


class AuditLog:
    """Writes entries in batches: one sync of the file and one wait for the broker for all that came meanwhile.

    Entering writes OPENED, leaving CLOSED.
    """

    def __init__(
        self,
        new_file: NewFile,
        send: Send,
        *,
        signer: Signer,
        rules: AuditRules,
        now: Callable[[], Timestamp],
        opened: Event,
        meters: Meters | None = None,
    ) -> None:
        """Create a log; opened: its first entry, that of later chains names the one before."""
        self._new_file = new_file
        self._file: ChainFile
        self._rotate_at = Timestamp(0)
        self._send = send
        self._signer = signer
        self._rules = rules
        self._now = now
        self._opened = opened
        self._meters = meters or Meters()
        self._sequence = 0
        self._previous = GENESIS
        self._since_anchor = 0
        self._queue: list[_Waiting] = []
        self._unsent: deque[_Batch] = deque()
        self._unsent_bytes = 0
        self._written_entries = 0
        self._sent_entries = 0
        self._waiting_for_topic: list[_Waiting] = []
        self._notes: list[Event] = []
        self._is_topic_down = False
        self._failure = ""
        """Why nothing is written any more: what the file holds is not known."""
        self._is_closing = False
        self._wake_writer = asyncio.Event()
        self._wake_sender = asyncio.Event()
        # What runs in threads cannot be cancelled, so it is waited for: its entries must be known.
        self._writing: asyncio.Future[None] | None = None
        self._sending: asyncio.Future[bool] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Write OPENED. Raises AuditUnwritable, and Misconfigured where no file can be created."""
        self._begin(await asyncio.to_thread(self._new_file))
        self._tasks = [asyncio.create_task(self._write_all()), asyncio.create_task(self._send_all())]
        try:
            await self.record(self._opened)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write CLOSED. Where that fails, the next writer ends the chain."""
        try:
            await self.record(Event(kind=AuditKind.CLOSED))
        except AuditUnwritable as failure:
            _log.error("the audit log has no end yet; the next start of a worker here writes it", error=str(failure))
        finally:
            await self._stop()

    async def record(self, *events: Event) -> None:
        """Write events, in this order, and return when they count as written. Raises AuditUnwritable."""
        if not events:
            return
        waiting = _Waiting(events, asyncio.get_running_loop().create_future())
        if reason := self._refusal():
            self._fail([waiting], reason)
        else:
            self._queue.append(waiting)
            self._wake_writer.set()
        await waiting.written

    def event(self, kind: AuditKind, *, text: str = "", **fields: object) -> Event:
        """Return an event; of its text the keyed hash, and the text itself only where the rules allow it."""
        return Event(
            kind=kind,
            text=text if self._rules.plain_text else "",
            text_hash=self._signer.hash_text(text) if text else "",
            **fields,  # type: ignore[arg-type]
        )

    def _refusal(self) -> str:
        """Return why nothing can be written now, or an empty text."""
        if self._is_closing:
            return "it is closed"
        if self._failure:
            return self._failure
        if self._rules.waits_for_topic and self._is_topic_down:
            return "its topic takes no entries (FREKI_AUDIT__WHEN_UNWRITABLE=refuse)"
        if self._unsent_bytes >= self._rules.buffer_bytes:
            return "too much waits for its topic: FREKI_AUDIT__BUFFER_MB is full"
        return ""

    def _fail(self, waiting: Sequence[_Waiting], reason: str) -> None:
        for each in waiting:
            self._meters.count_unaudited(len(each.events))
            if not each.written.done():
                each.written.set_exception(AuditUnwritable(f"the audit log cannot be written: {reason}"))
        if waiting:
            _log.error("the audit log cannot be written", reason=reason, entries=len(waiting))

    async def _write_all(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._wake_writer.wait(), self._rules.anchor_s)
                is_due = False
            except TimeoutError:
                is_due = True
            self._wake_writer.clear()
            waiting, self._queue = self._queue, []
            self._writing = asyncio.ensure_future(self._write(waiting, is_due=is_due))
            await asyncio.shield(self._writing)

    async def _write(self, waiting: Sequence[_Waiting], *, is_due: bool) -> None:
        """Write a batch; is_due: and an anchor, where something came since the last one."""
        try:
            now = self._now()
            # The clock may have been ahead when the file began.
            self._rotate_at = Timestamp(min(self._rotate_at, now + self._rules.rotation_ms))
            if now >= self._rotate_at:
                await self._rotate()
            await self._write_batch(waiting, is_due=is_due)
        except Exception as error:  # noqa: BLE001 - nobody may wait for ever
            self._failure = f"its file failed unexpectedly, restart the process: {error!r}"
            _log.exception("the audit log is written no more; the next start of a worker here ends its file")
            self._fail(waiting, self._failure)

    async def _rotate(self) -> None:
        """End this chain, and begin another; where that fails, this one goes on."""
        self._rotate_at = Timestamp(self._now() + ROTATION_RETRY_MS)
        chain = self._chain()
        self._link(chain, Event(kind=AuditKind.CLOSED))
        file: ChainFile | None = None
        try:
            file = await asyncio.to_thread(self._new_file)
            await self._append(chain)
        except InfraError as error:
            _log.warning("a file of the audit log is kept longer, since no other could be begun", error=str(error))
            if file is not None:
                file.close()
            return
        closed = chain.entries[-1]
        self._begin(file)
        end = ChainEnd(writer=closed.writer, sequence=closed.sequence, hash=closed.hash)
        self._notes.insert(0, replace(self._opened, continues=(end,)))

    def _begin(self, file: ChainFile) -> None:
        self._file, self._rotate_at = file, Timestamp(self._now() + self._rules.rotation_ms)
        self._sequence, self._previous, self._since_anchor = 0, GENESIS, 0

    async def _write_batch(self, waiting: Sequence[_Waiting], *, is_due: bool) -> None:
        notes, self._notes = self._notes, []
        chain = self._chain()
        for event in notes:
            self._link(chain, event)
        for each in waiting:
            for event in each.events:
                self._link(chain, event)
            each.position = self._written_entries + len(chain.entries)
        if is_due and chain.since_anchor:
            self._link(chain, Event(kind=AuditKind.ANCHOR))
        if not chain.entries:
            return
        try:
            await self._append(chain)
        except Unavailable as error:
            self._notes = notes + self._notes
            self._fail(waiting, str(error))
            return
        if self._rules.waits_for_topic:
            self._waiting_for_topic += waiting
        else:
            _done(waiting)

    def _chain(self) -> "_Chain":
        return _Chain(self._file.writer, self._sequence, self._previous, self._since_anchor)

    async def _append(self, chain: "_Chain") -> None:
        """Write the entries of a chain to its file, and let them be sent. Raises Unavailable."""
        size = await asyncio.to_thread(self._file.append, chain.entries)
        self._sequence, self._previous, self._since_anchor = chain.sequence, chain.previous, chain.since_anchor
        self._unsent.append(_Batch(chain.entries, self._file, size))
        self._unsent_bytes += size
        self._written_entries += len(chain.entries)
        self._meters.count_audited(len(chain.entries))
        self._wake_sender.set()

    def _link(self, chain: "_Chain", event: Event) -> None:
        chain.add(event, self._now(), self._signer.sign)
        if chain.since_anchor >= self._rules.anchor_entries and event.kind is not AuditKind.CLOSED:
            chain.add(Event(kind=AuditKind.ANCHOR), self._now(), self._signer.sign)

    async def _send_all(self) -> None:
        while True:
            await self._wake_sender.wait()
            self._wake_sender.clear()
            while self._unsent:
                self._sending = asyncio.ensure_future(self._send_unsent())
                if not await asyncio.shield(self._sending):
                    await asyncio.sleep(RETRY_S)

    async def _send_unsent(self) -> bool:
        """Send all that the topic lacks, in order; return whether it took it."""
        batches = list(self._unsent)
        entries = [entry for batch in batches for entry in batch.entries]
        try:
            await self._send(entries)
        except Exception as error:  # noqa: BLE001 - a bug, too, must leave nobody waiting for ever
            if not self._is_topic_down:
                bug = None if isinstance(error, InfraError) else error
                _log.error(
                    "the topic of the audit log takes no entries", error=str(error), waiting=len(entries), exc_info=bug
                )
            self._is_topic_down = True
            failed, self._waiting_for_topic = self._waiting_for_topic, []
            # The file says that they were given, which they were not.
            self._notes += [_withheld(event) for each in failed for event in each.events if event.kind in _GIVEN]
            self._fail(failed, f"its topic takes no entries: {error}")
            return False
        if self._is_topic_down:
            self._is_topic_down = False
            _log.info("the topic of the audit log has all entries again", sent=len(entries))
        for batch in batches:
            self._unsent.popleft()
            self._unsent_bytes -= batch.size
        self._sent_entries += len(entries)
        for file, last in {batch.file: batch.entries[-1] for batch in batches}.items():
            await asyncio.to_thread(file.mark_sent, last.sequence)
            if file is not self._file and last.kind is AuditKind.CLOSED:
                file.close()
        _done([each for each in self._waiting_for_topic if each.position <= self._sent_entries])
        self._waiting_for_topic = [each for each in self._waiting_for_topic if each.position > self._sent_entries]
        if self._notes:
            self._wake_writer.set()
        return True

    async def _stop(self) -> None:
        self._is_closing = True
        await cancel_and_wait(self._tasks)
        begun = [each for each in (self._writing, self._sending) if each is not None]
        await asyncio.gather(*begun, return_exceptions=True)
        # A topic that did not take them just now gets them from the file, by the next worker that starts here.
        if not self._rules.waits_for_topic and self._unsent and not self._is_topic_down:
            await self._send_unsent()
        self._fail(self._queue + self._waiting_for_topic, "it is closed")
        for file in {self._file, *(batch.file for batch in self._unsent)}:
            file.close()


class _Chain:
    """Entries that are linked to the last written one, until they are written too."""

    def __init__(self, writer: str, sequence: int, previous: str, since_anchor: int) -> None:
        self.writer = writer
        self.sequence = sequence
        self.previous = previous
        self.since_anchor = since_anchor
        self.entries: list[AuditEntry] = []

    def add(self, event: Event, at: Timestamp, sign: Callable[[bytes], str]) -> None:
        linked = link(event, writer=self.writer, sequence=self.sequence, at=at, previous=self.previous)
        entry = signed(linked, sign)
        self.entries.append(entry)
        self.sequence += 1
        self.previous = entry.hash
        self.since_anchor = 0 if entry.signature else self.since_anchor + 1


def _done(waiting: Sequence[_Waiting]) -> None:
    for each in waiting:
        if not each.written.done():
            each.written.set_result(None)


def _withheld(event: Event) -> Event:
    return Event(kind=AuditKind.REFUSED, tenant=event.tenant, asker=event.asker, subject=event.subject, reason=WITHHELD)
