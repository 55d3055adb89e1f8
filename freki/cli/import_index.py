"""`freki import`: write an archive of `freki export` into an index."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from freki.cli.arguments import given_path
from freki.cli.audited import record_command
from freki.cli.bars import bars
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.export_index import MB, completeness, shown_completeness
from freki.cli.show import show_error
from freki.cli.stream_state import read_stream
from freki.cli.words import counted
from freki.infra.archive.reader import ArchiveReader, read_manifest
from freki.infra.milvus.index import MilvusIndex
from freki.infra.milvus.layout import VERSION
from freki.infra.models import embedder_identity
from freki.infra.settings import Settings
from freki.operators.fit import Mismatch, mismatches
from freki.schemas import AuditKind
from freki.schemas.archive import ArchiveManifest
from freki.streams.archive import Importer, ImportReport
from freki.streams.topics import DAY_MS
from freki.streams.wire.connect import open_index
from freki.streams.wire.from_settings import generation_of, wall_clock


@command
async def import_index(
    directory: Annotated[Path, typer.Argument(parser=given_path, help="Folder of the archive")],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all files, and count what the index lacks; write no document")
    ] = False,
    old: Annotated[
        bool, typer.Option("--old", help="Accept an archive from before the deletions that the index remembers")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON")] = False,
) -> None:
    """Write an archive into the index; newer documents and deletions stay. Continue an interrupted import."""
    settings = load_settings()
    manifest = read_manifest(directory)
    _check_fit(settings, directory, manifest)
    began = time.monotonic()
    async with open_index(settings, creates=True) as index:
        if not old and not dry_run:
            await _check_age(settings, index, manifest)
        if not dry_run:
            whose = manifest.start.tenant or ""
            await record_command(settings, AuditKind.PUBLISHED, f"freki import {directory}", tenant=whose)
        with bars(errors) as progress:
            task = "chunks checked" if dry_run else "chunks imported"
            # Before any document is written: no query may find one that was deleted.
            stream = await read_stream(settings, progress)
            bar = progress.add_task(task, total=manifest.chunks)
            importer = Importer(
                index=index,
                archive=ArchiveReader(directory, manifest),
                now=wall_clock,
                gone=stream.deleted,
                advance=lambda count: progress.advance(bar, count),
            )
            report = await importer.import_all(dry_run=dry_run)
    _show(manifest, report, time.monotonic() - began, dry_run=dry_run, as_json=as_json)
    if stream.expected and not dry_run and not as_json:
        console.print(
            "what changed since is not in it: `freki verify` compares index and stream, `--repair` repairs the index",
            soft_wrap=True,
        )


def _check_fit(settings: Settings, directory: Path, manifest: ArchiveManifest) -> None:
    """End the command if rows of the archive do not fit the index."""
    fingerprint, dim = embedder_identity(settings.models)
    generation = generation_of(settings, embedder=fingerprint, dim=dim)
    found = mismatches(manifest.start, generation, layout=VERSION)
    if not found:
        return
    for each in found:
        show_error(
            errors,
            f"{directory} does not fit: its {each.parameter} is {each.archived}, here it is {each.expected}; "
            f"{_remedy(each, manifest)}",
        )
    fail(
        f"otherwise {counted(manifest.chunks, 'chunk')} in {counted(manifest.documents, 'document')} must be embedded "
        "again: set FREKI_MILVUS__GENERATION to a new name, which workers fill from the stream"
    )


def _remedy(mismatch: Mismatch, manifest: ArchiveManifest) -> str:
    model = manifest.start.generation.embedder.partition("@")[0]
    return {
        "embedder": f"set FREKI_MODELS__EMBEDDER={model}, and use the version of Freki that wrote it, "
        f"{manifest.start.freki}",
        "dim": f"set FREKI_MODELS__EMBEDDER={model}",
        "embedders": "set FREKI_MODELS__EMBEDDERS as it was",
        "analyser": f"set FREKI_LEXICAL__ANALYSER as it was, and use the version of Freki that wrote it, "
        f"{manifest.start.freki}",
    }.get(mismatch.parameter, f"use the version of Freki that wrote it, {manifest.start.freki}")


async def _check_age(settings: Settings, index: MilvusIndex, manifest: ArchiveManifest) -> None:
    """End the command if documents may come back whose deletion the index has forgotten."""
    days = settings.ingest.deleted_retention_days
    age_days = (wall_clock() - manifest.start.began_at) / DAY_MS
    if age_days < days:
        return
    held = await index.statistics()
    if held.documents or held.deleted:
        fail(
            f"the archive is {age_days:.0f} days old, and the index remembers deletions for {days:g} "
            "(FREKI_INGEST__DELETED_RETENTION_DAYS): documents deleted since would come back. Import it into an empty "
            "generation, or with --old, then run `freki verify --repair`, which deletes what the stream deleted"
        )


def _show(manifest: ArchiveManifest, report: ImportReport, seconds: float, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        held = {"dry_run": dry_run, **asdict(report), "bytes": manifest.bytes, "seconds": round(seconds, 3)}
        console.print_json(json.dumps({**held, **completeness(manifest)}))
        return
    done = "all files are intact; an import would write" if dry_run else "imported"
    rate = manifest.chunks / max(seconds, 0.001)
    console.print(
        f"{done} {counted(report.documents, 'document')} ({counted(report.deleted, 'deletion')}), "
        f"{counted(report.chunks, 'chunk')}; "
        f"read {manifest.bytes / MB:,.1f} MB in {seconds:.1f} s ({rate:,.0f} chunks/s)",
        highlight=False,
        soft_wrap=True,
    )
    if report.present or report.present_deleted:
        console.print(
            f"in the index already, or newer there: {counted(report.present, 'document')} "
            f"({counted(report.present_deleted, 'deletion')})",
            highlight=False,
        )
    if report.withheld:
        console.print(
            f"left out, because the stream deleted them: {counted(report.withheld, 'document')}", highlight=False
        )
    console.print(f"the archive is {shown_completeness(manifest)}", highlight=False, soft_wrap=True)
    if manifest.left_out:
        names = ", ".join(f"{each.tenant}/{each.document_id}" for each in manifest.left_out[:3])
        console.print(
            Text(
                f"left out of it: {counted(len(manifest.left_out), 'document')}, {names} …; publish them again",
                "yellow",
            )
        )
