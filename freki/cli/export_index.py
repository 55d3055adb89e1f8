"""`freki export`: an index, or a tenant of it, as files; as a backup, again and again."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from freki.cli.arguments import given_path, not_empty
from freki.cli.audited import record_command
from freki.cli.bars import bars
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.show import show_error
from freki.cli.words import counted
from freki.infra.archive.folder import dated_folders, remove_folder
from freki.infra.archive.writer import ArchiveWriter, continues
from freki.infra.extras import require
from freki.infra.milvus.index import MilvusIndex
from freki.infra.milvus.layout import VERSION
from freki.infra.models import embedder_identity
from freki.infra.settings import Settings
from freki.infra.signals import run_until_stopped
from freki.operators.backups import name_of, seconds_of, superseded_backups, time_of, wait_s
from freki.schemas import AuditKind, TenantId
from freki.schemas.archive import FORMAT, ArchiveManifest, ArchiveStart
from freki.schemas.errors import Unavailable
from freki.streams.archive import Exporter
from freki.streams.wire.connect import open_index
from freki.streams.wire.from_settings import generation_of, wall_clock

RETRY_S = 60.0
"""Seconds until a backup that failed because a service did not answer is continued."""
SHOWN = 10
"""Maximum number of left out documents that are named."""
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class FinishedArchive:
    """An archive that was finished."""

    folder: Path
    manifest: ArchiveManifest
    seconds: float
    """Duration of the last run."""


@command
async def export_index(
    directory: Annotated[
        Path, typer.Argument(parser=given_path, help="Folder of the archive; with --every or --keep, of dated ones")
    ],
    *,
    tenant: Annotated[str | None, typer.Option(help="Only the documents of this tenant", callback=not_empty)] = None,
    every: Annotated[
        str | None, typer.Option(help="Export again and again into dated folders, such as 30m, 1h, 1d, until Ctrl-C")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Export into a dated folder, and keep this many of them")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON")] = False,
) -> None:
    """Write the index to files, with vectors and token vectors; continue an interrupted export."""
    settings = load_settings()
    require("export")
    every_s = _seconds(every)
    whose = None if tenant is None else TenantId(tenant)
    if every_s is None:
        done = await _export(settings, directory, whose, is_dated=keep is not None)
        _show(done, as_json=as_json)
        _remove_old(directory, keep)
        raise typer.Exit(1 if done.manifest.left_out else 0)

    async def export() -> None:
        _show(await _export(settings, directory, whose, is_dated=True), as_json=as_json)
        _remove_old(directory, keep)

    await run_until_stopped(_repeat(export, directory, every_s))


async def _repeat(export: Callable[[], Awaitable[None]], directory: Path, every_s: float) -> None:
    while True:
        if wait := wait_s(dated_folders(directory)[0], every_s=every_s, now=wall_clock()):
            await asyncio.sleep(wait)
            continue
        try:
            await export()
        except Unavailable as error:
            show_error(errors, f"{error}; trying again in {min(RETRY_S, every_s):.0f} s")
            await asyncio.sleep(min(RETRY_S, every_s))


def _seconds(every: str | None) -> float | None:
    try:
        return None if every is None else seconds_of(every)
    except ValueError as error:
        fail(f"--every {error}", code=2)


async def _export(settings: Settings, directory: Path, tenant: TenantId | None, *, is_dated: bool) -> FinishedArchive:
    began = time.monotonic()
    async with open_index(settings) as index:
        start = await _start(settings, index, tenant)
        folder = _folder(directory, start) if is_dated else directory
        await record_command(settings, AuditKind.EXPORTED, f"freki export {folder}", tenant=tenant or "")
        async with ArchiveWriter(folder, start) as archive:
            held = None if tenant is not None else (await index.statistics()).chunks
            with bars(errors) as progress:
                bar = progress.add_task("chunks exported", total=held, completed=archive.chunks)
                exporter = Exporter(
                    index=index, archive=archive, now=wall_clock, advance=lambda count: progress.advance(bar, count)
                )
                manifest = await exporter.export()
    return FinishedArchive(folder, manifest, time.monotonic() - began)


async def _start(settings: Settings, index: MilvusIndex, tenant: TenantId | None) -> ArchiveStart:
    fingerprint, dim = embedder_identity(settings.models)
    return ArchiveStart(
        format=FORMAT,
        freki=version("freki"),
        layout=VERSION,
        generation=generation_of(settings, embedder=fingerprint, dim=dim),
        tenant=tenant,
        began_at=wall_clock(),
        watermarks=tuple(await index.watermarks()),
    )


def _folder(parent: Path, start: ArchiveStart) -> Path:
    """Return the folder of an interrupted backup, else a new one."""
    for name in reversed(dated_folders(parent)[1]):
        if time_of(name) is not None and continues(parent / name, start):
            return parent / name
    return parent / name_of(start.began_at)


def _remove_old(directory: Path, keep: int | None) -> None:
    if keep is not None:
        for name in superseded_backups(*dated_folders(directory), keep=keep, now=wall_clock()):
            remove_folder(directory / name)


def _show(done: FinishedArchive, *, as_json: bool) -> None:
    manifest = done.manifest
    if as_json:
        console.print_json(
            json.dumps(
                {
                    "folder": str(done.folder),
                    "documents": manifest.documents,
                    "deleted": manifest.deleted,
                    "chunks": manifest.chunks,
                    "bytes": manifest.bytes,
                    "seconds": round(done.seconds, 3),
                    **completeness(manifest),
                    "left_out": [f"{each.tenant}/{each.document_id}" for each in manifest.left_out],
                }
            )
        )
        return
    rate = manifest.chunks / max(done.seconds, 0.001)
    console.print(
        f"exported {counted(manifest.documents, 'document')} ({counted(manifest.deleted, 'deletion')}), "
        f"{counted(manifest.chunks, 'chunk')}, "
        f"{manifest.bytes / MB:,.1f} MB in {done.seconds:.1f} s ({rate:,.0f} chunks/s) to {done.folder}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(shown_completeness(manifest), highlight=False, soft_wrap=True)
    for each in manifest.left_out[:SHOWN]:
        name = f"{each.tenant}/{each.document_id}"
        console.print(Text.assemble((name, "bold"), f"  left out: {each.problem}; publish it again"))
    if manifest.left_out:
        console.print(f"{counted(len(manifest.left_out), 'document')} left out", style="yellow")


def completeness(manifest: ArchiveManifest) -> dict[str, int | None]:
    """Return when every change that was searchable is in the archive, and the last commit before, in milliseconds."""
    last = max((mark.committed_at for mark in manifest.start.watermarks), default=None)
    return {"complete_through": manifest.start.began_at, "last_commit_at": last}


def shown_completeness(manifest: ArchiveManifest) -> str:
    """Return the same for the terminal."""
    through, last = (_time(each) for each in completeness(manifest).values())
    return f"complete up to {through}; last commit before: {last}"


def _time(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds / 1000))
