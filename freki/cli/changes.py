"""Document changes from files, folders and recorded streams."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from freki.cli.context import fail
from freki.infra.settings import Settings
from freki.infra.sources import FileChange, FileEvent, SourceFile, read_source, read_stream, walk
from freki.schemas import EVERYONE, DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.streams.wire.connect import open_index
from freki.streams.wire.from_settings import wall_clock

STREAMS = (".jsonl", ".jsonl.zst")

Make = Callable[[], DocumentChange]
"""Deferred construction of a change; raises Rejected for an unusable file."""


class ChangeMaker:
    """Factory of changes of one tenant from files and recorded lines."""

    def __init__(self, settings: Settings, tenant: str | None, principals: Sequence[str] | None, priority: int) -> None:
        self.tenant = TenantId(tenant or settings.tenant)
        self._max_bytes = settings.claims.max_bytes
        self._principals = tuple(principals or [EVERYONE])
        self._priority = priority
        self._last = 0

    def upsert(self, given: Path, file: SourceFile) -> DocumentChange:
        """Read a file. Its version is the time of publishing, so that a restored file counts as newer."""
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
        """Return an upsert of a text."""
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
        """Return the deletion of a document."""
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
        """Return the change for an event of a watched file."""
        if event.change is FileChange.REMOVED:
            return self.delete(document_id(given, event.file))
        return self.upsert(given, event.file)

    def recorded(self, path: Path) -> Iterator[DocumentChange]:
        """Yield the changes of a recorded stream with their recorded versions."""
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
    """Return the document id: the file name, or for a file in a folder the folder's name and the path below it.

    The folder's name keeps files of the same name in two folders apart.
    """
    folder = given.resolve()
    return DocumentId(f"{folder.name}/{file.document_id}") if folder.is_dir() else file.document_id


def plan(paths: Iterable[Path], maker: ChangeMaker) -> tuple[int, Iterator[Make]]:
    """Return the number of changes and an iterator of their constructors, so that content is read on demand.

    Ends the command before anything is published if two files share a name or a stream has a bad line.
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
    """Return deletions of indexed documents from these folders whose file no longer exists."""
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
