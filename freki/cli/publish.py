"""`freki publish` and `freki watch`: files, folders and recorded streams become document changes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from rich.progress import Progress
from rich.text import Text

from freki.cli.arguments import Arguments, expanded
from freki.cli.bars import bars
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.show import show_error
from freki.infra.settings.sections import Settings
from freki.infra.sources import SETTLE_S, FileChange, FileEvent, SourceFile, read_source, read_stream, walk, watch
from freki.schemas import (
    EVERYONE,
    DocumentChange,
    DocumentId,
    IndexOutcome,
    LlmUse,
    Operation,
    OutcomeStatus,
    TenantId,
    Timestamp,
)
from freki.schemas.errors import Rejected
from freki.streams.client import Publisher, Receipts
from freki.streams.connect import open_index, open_publisher, open_receipts, wall_clock

STREAMS = (".jsonl", ".jsonl.zst")
# Longer than any single document takes; what waits behind others is counted anew with each receipt.
PATIENCE_S = 120.0
SHOWN_PROBLEMS = 20

Make = Callable[[], DocumentChange]
"""Makes a change when its turn comes; raises Rejected for a file that cannot be one."""

Paths = Annotated[list[Path], typer.Argument(help="Files, folders, or .jsonl / .jsonl.zst streams", show_default=False)]
Tenant = Annotated[str | None, typer.Option(help="Whose documents; default: FREKI_TENANT")]
Principals = Annotated[
    list[str] | None, typer.Option("--principal", help="Who may read them; may be repeated; default: everyone")
]


@dataclass(frozen=True, kw_only=True)
class PublishArguments(Arguments):
    """Options of `freki publish`."""

    panel: ClassVar[str] = "Options"

    wait: Annotated[bool, typer.Option("--wait", help="Wait for what became of each change")] = False
    prune: Annotated[bool, typer.Option("--prune", help="Delete documents whose file is gone from the folders")] = False
    priority: Annotated[int, typer.Option(help="Above 0: overtakes what waits; higher is indexed first")] = 0
    urgent: Annotated[bool, typer.Option("--urgent", help="The same as --priority 1")] = False
    tenant: Tenant = None
    principal: Principals = None
    patience: Annotated[float, typer.Option(help="With --wait: seconds without any receipt before giving up")] = (
        PATIENCE_S
    )


@command
@expanded
async def publish(paths: Paths, *, given: PublishArguments) -> None:
    """Publish files, folders and recorded streams as document changes."""
    settings = load_settings()
    maker = ChangeMaker(settings, given.tenant, given.principal, max(given.priority, int(given.urgent)))
    total, changes = plan(paths, maker)
    pruned = await gone(settings, maker, paths) if given.prune else []
    total += len(pruned)
    async with AsyncExitStack() as opened:
        # Opened before the first change is sent, so that no receipt is missed.
        receipts = await opened.enter_async_context(open_receipts(settings)) if given.wait else None
        publisher = await opened.enter_async_context(open_publisher(settings))
        with bars() as progress:
            sent = await send(publisher, receipts, chain(pruned, changes), total=total, progress=progress)
            outcomes = (
                await collect(receipts, total=sent, progress=progress, patience_s=given.patience) if receipts else []
            )
    if receipts is None:
        console.print(f"Published {sent} changes. With --wait you see what becomes of them.")
    elif not show_outcomes(outcomes, missing=sent - len(outcomes)):
        raise typer.Exit(1)
    if sent < total:
        raise typer.Exit(1)


@command
async def watch_folder(
    directory: Annotated[Path, typer.Argument(help="Folder to watch")],
    *,
    settle: Annotated[
        float, typer.Option(help="Seconds that a file must stay as it is before it is published", min=0.0)
    ] = SETTLE_S,
    poll: Annotated[
        float | None,
        typer.Option(help="Compare the folder every so many seconds, for disks that other machines write to", min=0.1),
    ] = None,
    tenant: Tenant = None,
    principal: Principals = None,
) -> None:
    """Publish a folder, then every file that is created, modified or removed in it, until Ctrl-C."""
    settings = load_settings()
    maker = ChangeMaker(settings, tenant, principal, priority=0)
    async with open_receipts(settings) as receipts, open_publisher(settings) as publisher:
        files = list(walk([directory]))
        pruned = await gone(settings, maker, [directory])
        total = len(files) + len(pruned)
        changes: Iterable[Make] = [*pruned, *(partial(maker.upsert, directory, file) for file in files)]
        with bars() as progress:
            sent = await send(publisher, receipts, changes, total=total, progress=progress)
            outcomes = await collect(receipts, total=sent, progress=progress, patience_s=PATIENCE_S)
        show_outcomes(outcomes, missing=sent - len(outcomes))
        console.print(f"Watching {directory}. Ctrl-C stops.")
        async for events in watch(directory, known=files, settle_s=settle, poll_s=poll):
            made = [partial(maker.event, directory, event) for event in events]
            with bars() as progress:
                sent = await send(publisher, receipts, made, total=len(made), progress=progress)
                outcomes = await collect(receipts, total=sent, progress=progress, patience_s=PATIENCE_S)
            for outcome in outcomes:
                console.print(line(outcome))
            if len(outcomes) < sent:
                show_error(errors, f"{sent - len(outcomes)} changes have no outcome yet: do workers run?")


class ChangeMaker:
    """Turns files and recorded lines into changes of one tenant."""

    def __init__(self, settings: Settings, tenant: str | None, principals: Sequence[str] | None, priority: int) -> None:
        self.tenant = TenantId(tenant or settings.tenant)
        self._max_bytes = settings.claims.max_bytes
        self._principals = tuple(principals or [EVERYONE])
        self._priority = priority
        self._last = 0

    def upsert(self, given: Path, file: SourceFile) -> DocumentChange:
        """Read a file; its version is the time of publishing, so that a file that comes back counts as newer."""
        return DocumentChange(
            tenant=self.tenant,
            document_id=document_id(given, file),
            operation=Operation.UPSERT,
            version=self._next_version(),
            occurred_at=file.modified_at,
            name=file.path.name,
            media_type=file.media_type,
            source_uri=file.path.absolute().as_uri(),
            principals=self._principals,
            priority=self._priority,
            content=read_source(file, max_bytes=self._max_bytes),
        )

    def text(self, name: str, content: str) -> DocumentChange:
        """Make a document of a text."""
        version = self._next_version()
        return DocumentChange(
            tenant=self.tenant,
            document_id=DocumentId(name),
            operation=Operation.UPSERT,
            version=version,
            occurred_at=Timestamp(version),
            name=name.rpartition("/")[2],
            principals=self._principals,
            priority=self._priority,
            content=content,
        )

    def delete(self, gone: DocumentId) -> DocumentChange:
        """Say that a document is gone."""
        version = self._next_version()
        return DocumentChange(
            tenant=self.tenant,
            document_id=gone,
            operation=Operation.DELETE,
            version=version,
            occurred_at=Timestamp(version),
            priority=self._priority,
        )

    def event(self, given: Path, event: FileEvent) -> DocumentChange:
        """Turn what happened to a watched file into a change."""
        if event.change is FileChange.REMOVED:
            return self.delete(document_id(given, event.file))
        return self.upsert(given, event.file)

    def recorded(self, path: Path) -> Iterator[DocumentChange]:
        """Read the changes of a stream; they keep their versions."""
        for line in read_stream(path):
            yield DocumentChange(
                tenant=self.tenant,
                document_id=DocumentId(line.document_id),
                operation=Operation(line.op.upper()),
                version=line.version,
                occurred_at=Timestamp(line.version if line.occurred_at is None else line.occurred_at),
                name=line.name,
                media_type=line.media_type,
                language=line.language,
                source_uri=line.source_uri,
                principals=self._principals if line.principals is None else line.principals,
                attributes=line.attributes,
                priority=line.priority or self._priority,
                content=line.content,
            )

    def _next_version(self) -> int:
        self._last = max(self._last + 1, wall_clock())
        return self._last


def document_id(given: Path, file: SourceFile) -> DocumentId:
    """Name a document: a file by its name, a file in a folder by the folder's name and the path below it.

    Two folders may hold files of the same name.
    """
    folder = given.resolve()
    return DocumentId(f"{folder.name}/{file.document_id}") if folder.is_dir() else file.document_id


def plan(paths: Iterable[Path], maker: ChangeMaker) -> tuple[int, Iterator[Make]]:
    """Count the changes, then give what makes them one by one, so that content is read when its turn comes.

    Fails on a name that two files share, and on a stream with a bad line, before anything is published.
    """
    total = 0
    sources: list[Iterator[Make]] = []
    seen: dict[DocumentId, Path] = {}
    for given in paths:
        if given.is_file() and given.name.endswith(STREAMS):
            total += sum(1 for _ in read_stream(given))
            sources.append(partial(_as_is, change) for change in maker.recorded(given))
            continue
        files = list(walk([given]))
        for file in files:
            name = document_id(given, file)
            if seen.setdefault(name, file.path) != file.path:
                fail(f"{seen[name]} and {file.path} would both be document {name}: publish them apart")
        total += len(files)
        sources.append(partial(maker.upsert, given, file) for file in files)
    return total, chain.from_iterable(sources)


def _as_is(change: DocumentChange) -> DocumentChange:
    return change


async def gone(settings: Settings, maker: ChangeMaker, paths: Iterable[Path]) -> list[Make]:
    """Find documents of the index that came from these folders and whose file is not there any more."""
    folders = [path for path in paths if path.is_dir()]
    if not folders:
        return []
    there = {document_id(folder, file) for folder in folders for file in walk([folder])}
    homes = tuple(folder.resolve().as_uri() + "/" for folder in folders)
    async with open_index(settings) as index:
        return [
            partial(maker.delete, root.document_id)
            async for root in index.all_roots()
            if root.tenant == maker.tenant
            and not root.deleted
            and (root.source_uri or "").startswith(homes)
            and root.document_id not in there
        ]


async def send(
    publisher: Publisher, receipts: Receipts | None, changes: Iterable[Make], *, total: int, progress: Progress
) -> int:
    """Publish changes in order; count them. A file that cannot be read or sent is named and left out."""
    bar = progress.add_task("published", total=total)
    sent = 0
    for make in changes:
        progress.advance(bar)
        try:
            change = make()
            if receipts is not None:
                receipts.expect(change)
            await publisher.publish(change)
        except Rejected as error:
            show_error(errors, f"not published: {error}")
            continue
        sent += 1
    return sent


async def collect(receipts: Receipts, *, total: int, progress: Progress, patience_s: float) -> list[IndexOutcome]:
    """Wait for a receipt of each change, as long as some arrive."""
    bar = progress.add_task("answered", total=total)
    outcomes: list[IndexOutcome] = []
    while len(outcomes) < total:
        try:
            outcomes.append(await receipts.next(patience_s=patience_s))
        except TimeoutError:
            break
        progress.advance(bar)
    return outcomes


def show_outcomes(outcomes: Sequence[IndexOutcome], *, missing: int) -> bool:
    """Print what became of the changes; tell whether all went well."""
    counts = Counter(outcome.status for outcome in outcomes)
    embedded = sum(outcome.embedded for outcome in outcomes)
    chunks = sum(outcome.chunks for outcome in outcomes)
    removed = sum(outcome.removed for outcome in outcomes)
    console.print(
        f"{len(outcomes)} outcomes: " + ", ".join(f"{counts[status]} {status.lower()}" for status in OutcomeStatus)
    )
    console.print(f"{chunks} chunks in these revisions, {embedded} embedded, {removed} old rows removed")
    if delays := sorted(
        outcome.searchable_at - outcome.received_at for outcome in outcomes if outcome.searchable_at is not None
    ):
        middle, late = (delays[ceil(share * len(delays)) - 1] for share in (0.5, 0.99))
        console.print(f"from read to searchable: p50 {middle / 1000:.2f} s, p99 {late / 1000:.2f} s")
    show_llm([outcome.llm for outcome in outcomes if outcome.llm is not None])
    rejected = [outcome for outcome in outcomes if outcome.status is OutcomeStatus.REJECTED]
    partly = [outcome for outcome in outcomes if outcome.status is OutcomeStatus.INDEXED and outcome.reason]
    for outcome in [*rejected[:SHOWN_PROBLEMS], *partly[:SHOWN_PROBLEMS]]:
        console.print(line(outcome))
    if len(rejected) > SHOWN_PROBLEMS:
        console.print(f"… and {len(rejected) - SHOWN_PROBLEMS} more; `freki dead-letters list` shows all")
    if missing:
        console.print(
            f"[yellow]{missing} changes have no outcome yet: do workers run? `freki status` shows their lag[/]"
        )
    return not rejected and not missing


def show_llm(uses: Sequence[LlmUse]) -> None:
    """Print what a language model did for the documents, and what that took."""
    if not uses:
        return
    tokens, cached = sum(use.prompt_tokens for use in uses), sum(use.cached_tokens for use in uses)
    console.print(
        f"language model: {sum(use.written for use in uses)} contexts written, {sum(use.kept for use in uses)} kept, "
        f"{tokens} tokens read, {cached} of them from its cache, {sum(use.completion_tokens for use in uses)} written"
    )
    if missing := sum(use.missing for use in uses):
        reason = next(use.reason for use in uses if use.missing)
        console.print(Text(f"{missing} contexts are missing; publish again to have them: {reason}", "yellow"))


def line(outcome: IndexOutcome) -> Text:
    """Say in one line what became of a change."""
    delay = "" if outcome.searchable_at is None else f"  {outcome.searchable_at - outcome.received_at} ms"
    style = "red" if outcome.status is OutcomeStatus.REJECTED else "green"
    detail = f"  {outcome.embedded} of {outcome.chunks} chunks embedded, {outcome.removed} removed{delay}"
    return Text.assemble(
        (outcome.status.lower(), style),
        "  ",
        outcome.document_id,
        (f"  {outcome.reason}" if outcome.reason else detail),
    )
