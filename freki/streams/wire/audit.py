"""The audit log of a process, as the settings say."""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path

import structlog

from freki.infra.audit import LeftChain, create_chain, left_chains, remove_expired
from freki.infra.registry import RegistryClient
from freki.infra.settings import Settings
from freki.infra.signing import SigningKey
from freki.operators.audit_chain import Event, link, signed
from freki.schemas import AuditEntry, AuditKind, ChainEnd, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.errors import InfraError, Misconfigured, Unavailable
from freki.streams.audit.log import AuditLog, AuditRules, ChainFile
from freki.streams.deliver.outbox import Outbox, Sink
from freki.streams.observe.meters import Meters
from freki.streams.topics import DAY_MS
from freki.streams.wire.from_settings import MIB, topics_of, wall_clock

_OF_PROCESS = frozenset({"FREKI_READY_FILE", "FREKI_TELEMETRY__HTTP_PORT"})
"""Settings that a supervisor gives each process again."""

_log = structlog.get_logger(__name__)


def audit_directory(settings: Settings) -> Path:
    """Return where the files of the log lie."""
    return (settings.audit.directory or settings.local.state_dir / "audit").expanduser().absolute()


def kept_since(settings: Settings) -> Timestamp:
    """Return the time before which entries may be gone."""
    return Timestamp(wall_clock() - settings.audit.retention_days * DAY_MS)


@asynccontextmanager
async def open_audit(
    settings: Settings,
    outbox: Outbox,
    *,
    part: str | None = None,
    registry: RegistryClient | None = None,
    meters: Meters | None = None,
) -> AsyncIterator[AuditLog | None]:
    """Open the log of this process, after the chains of dead ones were ended; None if the settings want none.

    part: stage whose settings are compared with those of its last start here; None: of no stage. Raises Misconfigured,
    and Unavailable where the log cannot be written.
    """
    audit = settings.audit
    if not audit.enabled:
        yield None
        return
    if audit.key_file is None:
        raise Misconfigured("FREKI_AUDIT__KEY_FILE is missing: `freki audit keys make FILE` makes one")
    signer, directory = SigningKey.read(audit.key_file), audit_directory(settings)
    sender = _Sender(Sink(outbox, topics_of(settings).audit.name, Codec(AuditEntry, registry=registry).encode))
    writers = _writers()
    first = next(writers)
    ends = await _end_left(directory, signer, sender, settings, by=first)
    writers = chain([first], writers)

    def new_file() -> ChainFile:
        if removed := remove_expired(directory, kept_since(settings)):
            _log.info("files of the audit log past FREKI_AUDIT__RETENTION_DAYS were removed", files=removed)
        return create_chain(directory, next(writers))

    log = AuditLog(
        new_file,
        sender.send,
        signer=signer,
        rules=AuditRules(
            waits_for_topic=audit.when_unwritable == "refuse",
            buffer_bytes=int(audit.buffer_mb * MIB),
            anchor_entries=audit.anchor_entries,
            anchor_s=audit.anchor_s,
            rotation_ms=DAY_MS,
            plain_text=audit.plain_text,
        ),
        now=wall_clock,
        opened=Event(kind=AuditKind.OPENED, continues=tuple(ends)),
        meters=meters,
    )
    async with log:
        if part is not None:
            await _record_settings(log, settings, signer, directory / f"{part}.settings")
        yield log


def _writers() -> Iterator[str]:
    """Yield names of writers, by the time when they are asked for."""
    while True:
        yield f"{wall_clock()}-{secrets.token_hex(8)}"


async def _record_settings(log: AuditLog, settings: Settings, signer: SigningKey, file: Path) -> None:
    """Record which settings are others than at the last start; the file keeps keyed hashes of them."""
    now = {name: signer.hash_text(repr(value)) for name, value in _flat(settings.model_dump(mode="json"))}
    before = await asyncio.to_thread(_read_hashes, file)
    changed = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
    if before and changed:
        await log.record(Event(kind=AuditKind.SETTINGS, reason=", ".join(changed)))
    if changed:
        await asyncio.to_thread(_write_hashes, file, now)


def _flat(values: Mapping[str, object], prefix: str = "FREKI_") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        variable = f"{prefix}{name.upper()}"
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{variable}__")
        elif variable not in _OF_PROCESS:
            yield variable, value


def _read_hashes(file: Path) -> dict[str, str]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_hashes(file: Path, hashes: Mapping[str, str]) -> None:
    written = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        written.write_text(json.dumps(hashes), encoding="utf-8")
        written.replace(file)
    except OSError as error:
        raise Unavailable(f"{file} cannot be written: {error.strerror}") from error


class _Sender:
    """Sends entries to the topic of the log."""

    def __init__(self, sink: Sink[AuditEntry]) -> None:
        self._sink = sink

    async def send(self, entries: Sequence[AuditEntry]) -> None:
        """Send entries in order; one partition has the chain of a writer."""
        await self._sink.send(*(self._sink.record(entry, key=entry.writer.encode()) for entry in entries))


async def _end_left(
    directory: Path, signer: SigningKey, sender: _Sender, settings: Settings, *, by: str
) -> list[ChainEnd]:
    """End the chains of dead writers, in the file and on the topic; return their ends."""
    ends = []
    chains = left_chains(directory)
    while (left := await asyncio.to_thread(next, chains, None)) is not None:
        try:
            ends.append(await _end(left, signer, sender, by=by))
        except InfraError as error:
            if settings.audit.when_unwritable == "refuse":
                raise
            _log.warning("the end of a chain of the audit log waits for the next start", error=str(error))
        finally:
            left.file.close()
    return ends


async def _end(left: LeftChain, signer: SigningKey, sender: _Sender, *, by: str) -> ChainEnd:
    last, unsent = left.last, left.unsent
    if last.kind is not AuditKind.CLOSED:
        event = Event(kind=AuditKind.CLOSED, reason=f"its process died; ended by {by}")
        last = signed(
            link(event, writer=last.writer, sequence=last.sequence + 1, at=wall_clock(), previous=last.hash),
            signer.sign,
        )
        await asyncio.to_thread(left.file.append, [last])
        unsent = (*unsent, last)
    await sender.send(unsent)
    await asyncio.to_thread(left.file.mark_sent, last.sequence)
    _log.warning("a chain of the audit log was ended after its process died", writer=last.writer, sent=len(unsent))
    return ChainEnd(writer=last.writer, sequence=last.sequence, hash=last.hash)
