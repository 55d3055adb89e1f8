"""`freki publish`: publish files, folders and recorded streams as document changes."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from freki.cli.arguments import ArgumentGroup, Priority, WithWait, expanded, given_path, not_empty
from freki.cli.bars import bars
from freki.cli.changes import (
    STREAMS,
    FileArguments,
    Make,
    OrphanedDocuments,
    as_is,
    deletions,
    gone,
    identify,
    name_readers,
    open_source,
    recorded,
    show_conflicts,
    show_no_index,
    upserts,
)
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.mass_deletion import DeleteMost
from freki.cli.other_generation import show_other_generation
from freki.cli.receipts import PATIENCE_S, Sent, collect, send, show_receipts
from freki.cli.rows import print_json
from freki.cli.show import show_error
from freki.cli.words import counted
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import Settings
from freki.infra.sources import SourceFile, read_stream, walk
from freki.schemas import DocumentId
from freki.schemas.errors import InfraError
from freki.streams.feed.files import FileReport, FileSource
from freki.streams.wire.connect import open_index, open_publisher, open_receipts

Paths = Annotated[
    list[Path],
    typer.Argument(parser=given_path, help="Files, folders, or .jsonl / .jsonl.zst streams", show_default=False),
]


@dataclass(frozen=True, kw_only=True)
class PublishArguments(ArgumentGroup):
    """Options of `freki publish`."""

    wait: Annotated[bool, typer.Option("--wait", help="Wait for the receipt of each change")] = False
    prune: Annotated[bool, typer.Option("--prune", help="Delete documents whose file is missing in the folders")] = (
        False
    )
    delete_most: DeleteMost = False
    priority: Priority = 0
    urgent: Annotated[bool, typer.Option("--urgent", help="The same as --priority 1")] = False
    title: Annotated[
        str | None, typer.Option(help="Name in citations, for one file; default: the file name", callback=not_empty)
    ] = None
    patience: WithWait = PATIENCE_S
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead: each receipt in a line, or the number of changes")
    ] = False


@command
@expanded
async def publish(paths: Paths, *, given: PublishArguments, of_files: FileArguments) -> None:
    """Publish files, folders and recorded streams as document changes; skip files that are unchanged."""
    settings = load_settings()
    streams = [path for path in paths if path.is_file() and path.name.endswith(STREAMS)]
    fields = of_files.fields(
        settings,
        priority=max(given.priority, int(given.urgent)),
        title=given.title,
        named_elsewhere=settings.auth.required and len(streams) == len(paths) and name_readers(streams),
    )
    left_out: list[InfraError] = []
    sources = [path for path in paths if path not in streams]
    files = list(walk(sources, root=of_files.root, name=of_files.name, leave_out=left_out.append))
    for error in left_out:
        show_error(errors, f"not published: {error}")
    if given.title is not None and (streams or len(files) != 1):
        fail("--title names one document: give one file, or leave it out", code=2)
    total = sum(1 for path in streams for _ in read_stream(path))
    changes: Iterator[Make] = (as_is(change) for path in streams for change in recorded(path, fields))
    async with AsyncExitStack() as opened:
        # Open before the first change is sent, so that no receipt is missed.
        receipts = await opened.enter_async_context(open_receipts(settings)) if given.wait else None
        publisher = await opened.enter_async_context(open_publisher(settings))
        source = None
        held_back: list[OrphanedDocuments] = []
        folders = [path for path in paths if path.is_dir()]
        if given.wait:
            await show_other_generation(settings)
        if len(streams) < len(paths):
            source = await opened.enter_async_context(open_source(settings, of_files, fields))
            async with _open_index(settings, required=given.prune) as index:
                allowed, outdated = await _identified(source, files, index, of_files, prune=given.prune)
                pruned, held_back = await _pruned(source, folders, files, index, given)
            outdated |= pruned
            total += len(outdated) + len(files)
            changes = chain(changes, deletions(source, outdated), upserts(source, allowed, settings))
        with bars() as progress:
            record = None if source is None else source.record
            sent = await send(publisher, receipts, changes, total=total, progress=progress, record=record)
            outcomes = (
                await collect(receipts, total=sent.changes, progress=progress, patience_s=given.patience)
                if receipts
                else []
            )
    if not given.as_json:
        show_files(source)
    for one in held_back:
        one.show()
    if receipts is None or not (sent.changes or given.as_json):
        _show_sent(sent, as_json=given.as_json)
    elif sent.changes and not show_receipts(outcomes, missing=sent.changes - len(outcomes), as_json=given.as_json):
        raise typer.Exit(1)
    if sum(sent) < total or left_out or held_back:
        raise typer.Exit(1)


def _show_sent(sent: Sent, *, as_json: bool) -> None:
    """Print how many changes are published, where nobody waits for receipts, or there are none to wait for."""
    if as_json:
        print_json({"published": sent.changes, "unchanged": sent.unchanged})
        return
    console.print(
        f"Published {counted(sent.changes, 'change')}." + " Use --wait to see their receipts." * bool(sent.changes)
    )


@asynccontextmanager
async def _open_index(settings: Settings, *, required: bool) -> AsyncIterator[MilvusIndex | None]:
    """Open the index; unless it is required, None if that fails, which is printed."""
    async with AsyncExitStack() as opened:
        index = None
        try:
            index = await opened.enter_async_context(open_index(settings))
        except InfraError as error:
            if required:
                raise
            show_no_index(error)
        yield index


async def _identified(
    source: FileSource, files: Sequence[SourceFile], index: MilvusIndex | None, arguments: FileArguments, *, prune: bool
) -> tuple[list[SourceFile], set[DocumentId]]:
    """Assign ids to files; return the files to publish, and other documents of them that are to be deleted.

    Prints files whose id belongs to one of the same name in another Unicode form. Ends the command if ids belong to any
    other source.
    """
    assignment = await identify(source, files, index)
    show_conflicts(assignment.conflicts)
    if not all(conflict.is_of_twins for conflict in assignment.conflicts):
        raise typer.Exit(1)
    refused = {conflict.source_uri for conflict in assignment.conflicts}
    allowed = [file for file in files if file.uri not in refused]
    if arguments.chosen or prune:
        return allowed, set(assignment.superseded)
    for document_id in assignment.superseded:
        show_error(errors, f"{document_id} is another document of one of these files: --prune deletes it")
    return allowed, set()


async def _pruned(
    source: FileSource,
    folders: Sequence[Path],
    files: Sequence[SourceFile],
    index: MilvusIndex | None,
    given: PublishArguments,
) -> tuple[set[DocumentId], list[OrphanedDocuments]]:
    """Return the documents without a file that are to be deleted, and the folders whose deletions are held back."""
    if index is None or not given.prune:
        return set(), []
    missing = await gone(source, folders, files, index)
    held_back = [one for one in missing if one.is_mass_deletion and not given.delete_most]
    # A folder may lie in another one, of which it is a small part.
    held = {each for one in held_back for each in one.documents}
    return {each for one in missing for each in one.documents} - held, held_back


def show_files(source: FileSource | None) -> None:
    """Print what became of files."""
    if source is None:
        return
    report: FileReport = source.report
    parts = [
        f"{number} {what}"
        for number, what in (
            (report.new, "new"),
            (report.changed, "changed"),
            (report.again, "published again"),
            (report.unchanged, "unchanged and not published"),
        )
        if number
    ]
    if parts:
        console.print(f"Files: {', '.join(parts)}" + ("; --force publishes all" if report.unchanged else ""))
