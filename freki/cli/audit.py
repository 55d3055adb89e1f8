"""`freki audit`: verify the audit log, search it, copy it, and make the key that signs it."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from freki.cli.arguments import given_path, not_empty
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.rows import AsJson, print_json, whole_table
from freki.cli.words import counted
from freki.infra.audit import read_chains, sent_marks
from freki.infra.durable_files import create_folder
from freki.infra.kafka import Reader
from freki.infra.settings import Settings
from freki.infra.signing import SigningKey, make_key, read_verifier
from freki.operators.audit_chain import ChainReport, check_chains, cut_off
from freki.schemas import AuditEntry, AuditKind, ChainEnd, Timestamp
from freki.schemas.audit_lines import NotAnEntry, line_of
from freki.schemas.avro import Codec, UndecodableError
from freki.streams.wire.audit import audit_directory, kept_since
from freki.streams.wire.connect import open_registry
from freki.streams.wire.from_settings import topics_of

audit_app = typer.Typer(help="Audit log: who was given what, and what changed.", no_args_is_help=True)
keys_app = typer.Typer(help="Key that signs the audit log.", no_args_is_help=True)
audit_app.add_typer(keys_app, name="keys")

Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--file", parser=given_path, help="File, or folder of files; default: FREKI_AUDIT__DIRECTORY; again for more"
    ),
]
Topic = Annotated[bool, typer.Option("--topic", help="Read the topic; with --file both together")]
PublicKeys = Annotated[
    list[Path] | None,
    typer.Option(
        "--public-key",
        parser=given_path,
        help="File of a public key; default: that of FREKI_AUDIT__KEY_FILE; again for more",
    ),
]


@keys_app.command("make")
@command
async def make(
    file: Annotated[Path, typer.Argument(parser=given_path, help="New file, which only you can read")],
) -> None:
    """Make a private key, and print its public key."""
    sys.stdout.write(make_key(file).public_pem)


@keys_app.command("show")
@command
async def show(
    file: Annotated[
        Path | None, typer.Argument(parser=given_path, help="Private key; default: FREKI_AUDIT__KEY_FILE")
    ] = None,
) -> None:
    """Print the public key, which `freki audit verify` needs on other machines."""
    path = file or load_settings().audit.key_file
    if path is None:
        fail("FREKI_AUDIT__KEY_FILE is not set; name the file", code=2)
    sys.stdout.write(SigningKey.read(path).public_pem)


@audit_app.command("verify")
@command
async def verify(
    files: Files = None, *, topic: Topic = False, public_keys: PublicKeys = None, as_json: AsJson = False
) -> None:
    """Name what is missing, altered or out of order; exit code 1 if anything is."""
    settings = load_settings()
    check, since = _verifier(settings, public_keys or []), kept_since(settings)
    damaged: list[str] = []
    # The topic first: a writer writes to its file first, so that the file has all that the topic had.
    on_topic = [entry async for entry in _on_topic(settings, damaged)] if topic else []
    # Before the files, which a running writer appends to before it notes what was sent.
    sent = sent_marks(files or [audit_directory(settings)]) if files or not topic else {}
    in_files = list(_in_files(settings, files, damaged)) if files or not topic else []
    reports = {
        "file": cut_off(check_chains(in_files, verify=check, kept_since=since, known=_known(on_topic, since)), sent),
        "topic": check_chains(on_topic, verify=check, kept_since=since, known=_known(in_files, since, closed=True)),
    }
    for place, each in reports.items():
        for report in each:
            _show_report(place, report, as_json=as_json)
    _show_damaged(damaged)
    if not (in_files or on_topic or damaged or sent):
        fail("no entry was found; is FREKI_AUDIT__ENABLED set where workers run?")
    if damaged or any(report.faults for each in reports.values() for report in each):
        raise typer.Exit(1)


@audit_app.command("export")
@command
async def export(
    folder: Annotated[
        Path, typer.Argument(parser=given_path, help="New folder; one file of JSON lines for each writer")
    ],
    files: Files = None,
    *,
    topic: Topic = False,
) -> None:
    """Copy the log, to keep it elsewhere or give it to an auditor: whole chains, which `verify --file` checks there."""
    settings = load_settings()
    chains: dict[str, dict[int, str]] = {}
    damaged: list[str] = []
    async for entry in _entries(settings, files, damaged, topic=topic):
        chains.setdefault(entry.writer, {})[entry.sequence] = line_of(entry)
    if not chains:
        fail("no entry was found; is FREKI_AUDIT__ENABLED set where workers run?")
    # Who may write to the topic may choose the name: no two writers share a file, and none lies elsewhere.
    contents = {
        f"{quote(writer, safe='')}.jsonl": "".join(f"{lines[sequence]}\n" for sequence in sorted(lines)).encode("ascii")
        for writer, lines in chains.items()
    }
    if settings.audit.key_file is not None:
        contents["public.pem"] = SigningKey.read(settings.audit.key_file).public_pem.encode("ascii")
    try:
        create_folder(folder, contents)
    except OSError as error:
        fail(f"{folder}: {error.strerror}; name a new folder", code=2)
    console.print(
        f"{counted(sum(map(len, chains.values())), 'entry', 'entries')} of {counted(len(chains), 'writer')}: {folder}",
        markup=False,
    )
    if damaged:
        _show_damaged(damaged)
        raise typer.Exit(1)


@audit_app.command("search")
@command
async def search(  # noqa: PLR0913 - options
    files: Files = None,
    *,
    topic: Topic = False,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant", callback=not_empty)] = None,
    principal: Annotated[str | None, typer.Option(help="Of this user or group", callback=not_empty)] = None,
    document: Annotated[str | None, typer.Option(help="About this document", callback=not_empty)] = None,
    kind: Annotated[
        list[AuditKind] | None, typer.Option(case_sensitive=False, help="Of this kind; again for more")
    ] = None,
    since: Annotated[datetime | None, typer.Option(help="From this time on, UTC")] = None,
    text: Annotated[
        str | None, typer.Option(help="Of exactly this query; needs FREKI_AUDIT__KEY_FILE", callback=not_empty)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print entries, oldest first; exit code 1 if there are lines that are none."""
    settings = load_settings()
    text_hash = None if text is None else _key(settings).hash_text(text)
    since_ms = 0 if since is None else int(since.replace(tzinfo=since.tzinfo or UTC).timestamp() * 1000)

    def fits(entry: AuditEntry) -> bool:
        return (
            (tenant is None or entry.tenant == tenant)
            and (principal is None or principal in {entry.asker, entry.subject, *entry.principals})
            and (document is None or any(each.document_id == document for each in entry.documents))
            and (not kind or entry.kind in kind)
            and entry.at >= since_ms
            and (text_hash is None or entry.text_hash == text_hash)
        )

    damaged: list[str] = []
    found = {
        (entry.writer, entry.sequence): entry
        async for entry in _entries(settings, files, damaged, topic=topic)
        if fits(entry)
    }
    entries = sorted(found.values(), key=lambda entry: (entry.at, entry.writer, entry.sequence))
    if as_json:
        for entry in entries:
            sys.stdout.write(line_of(entry) + "\n")
    else:
        _show_entries(entries)
    if damaged:
        _show_damaged(damaged)
        raise typer.Exit(1)


def _show_entries(entries: Sequence[AuditEntry]) -> None:
    table = whole_table("time", "kind", "tenant", "asker", "principals", "documents", "reason", box=None)
    for entry in entries:
        table.add_row(
            _time_of(entry),
            entry.kind,
            entry.tenant,
            entry.asker,
            ", ".join(entry.principals),
            ", ".join(f"{each.document_id}@{each.version}" for each in entry.documents),
            entry.reason,
        )
    console.print(table if entries else "no entry")


def _time_of(entry: AuditEntry) -> str:
    """Return the time of an entry; who forges one may choose a time that no calendar has."""
    try:
        return datetime.fromtimestamp(entry.at / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{entry.at} ms"


async def _entries(
    settings: Settings, files: Sequence[Path] | None, damaged: list[str], *, topic: bool
) -> AsyncIterator[AuditEntry]:
    if files or not topic:
        for entry in _in_files(settings, files, damaged):
            yield entry
    if topic:
        async for entry in _on_topic(settings, damaged):
            yield entry


def _in_files(settings: Settings, files: Sequence[Path] | None, damaged: list[str]) -> Iterator[AuditEntry]:
    """Yield the entries of files in order; append to `damaged` the places of what is none."""
    if not files and not audit_directory(settings).is_dir():
        fail(
            f"there is no folder {audit_directory(settings)}: FREKI_AUDIT__DIRECTORY names that of the workers' files; "
            "--file reads others, --topic the topic",
            code=2,
        )
    for place, entry in read_chains(files or [audit_directory(settings)]):
        if isinstance(entry, NotAnEntry):
            damaged.append(place)
        else:
            yield entry


async def _on_topic(settings: Settings, damaged: list[str]) -> AsyncIterator[AuditEntry]:
    """Yield the entries of the topic, those of a writer in order; append to `damaged` the places of what is none."""
    name = topics_of(settings).audit.name
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, name, start="earliest", registry=registry) as reader,
    ):
        codec = Codec(AuditEntry, registry=registry)
        async for stored in reader.until_end():
            try:
                entry = codec.decode(stored.value or b"")
            except UndecodableError:
                damaged.append(f"{name}/{stored.partition}/{stored.offset}")
            else:
                yield entry


def _known(entries: Sequence[AuditEntry], since: Timestamp, *, closed: bool = False) -> list[ChainEnd]:
    """Return what another place must have too: of each chain the last entry, and the first that is not past retention.

    closed: the last one only of chains that have their end.
    """
    first: dict[str, AuditEntry] = {}
    last: dict[str, AuditEntry] = {}
    for entry in sorted(entries, key=lambda entry: entry.sequence):
        last[entry.writer] = entry
        if entry.at >= since:
            first.setdefault(entry.writer, entry)
    ends = (entry for entry in last.values() if entry.kind is AuditKind.CLOSED or not closed)
    return [
        ChainEnd(writer=entry.writer, sequence=entry.sequence, hash=entry.hash) for entry in (*first.values(), *ends)
    ]


def _verifier(settings: Settings, public_keys: Sequence[Path]) -> Callable[[bytes, str], bool]:
    if public_keys:
        return read_verifier(public_keys)
    return _key(settings).verify


def _key(settings: Settings) -> SigningKey:
    if settings.audit.key_file is None:
        fail("FREKI_AUDIT__KEY_FILE is not set; without the private key give its public one: --public-key FILE", code=2)
    return SigningKey.read(settings.audit.key_file)


def _show_damaged(places: Sequence[str]) -> None:
    for where in places:
        errors.print(f"{where}: no entry of an audit log", style="red", markup=False)


def _show_report(place: str, report: ChainReport, *, as_json: bool) -> None:
    if as_json:
        print_json({"place": place, **asdict(report)})
        return
    state = "closed" if report.is_closed else "has no end: its process runs, was killed, or what follows is cut off"
    expired = f", {report.expired} before are past their retention" if report.expired else ""
    length = f"{counted(report.entries, 'entry', 'entries')} to {report.last}{expired}, signed to {report.anchored}"
    console.print(f"{place} {report.writer}: {length}; {state}", markup=False)
    for fault in report.faults:
        where = str(fault.first) if fault.first == fault.last else f"{fault.first} to {fault.last}"
        console.print(f"  {fault.kind} {report.writer} {where}: {fault.detail}", style="red", markup=False)
