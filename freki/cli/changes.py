"""Document changes from files and recorded streams."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from freki.cli.arguments import ArgumentGroup, Tenant, given_path, not_empty
from freki.cli.context import errors, fail
from freki.cli.mass_deletion import show_held_back
from freki.cli.show import show_error
from freki.infra.settings import FolderSettings, Settings
from freki.infra.sources import SourceFile, is_missing, media_type_of, read_source, read_stream
from freki.operators.assign_ids import Assignment, Conflict
from freki.operators.mass_deletion import is_mass_deletion
from freki.schemas import EVERYONE, DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.errors import InfraError
from freki.schemas.names import LANGUAGE_CODE
from freki.streams.feed.files import FileDocument, FileFields, FileSource, Publication
from freki.streams.ports import IndexedDocuments, WholeIndex
from freki.streams.wire.connect import open_ledger
from freki.streams.wire.from_settings import wall_clock

STREAMS = (".jsonl", ".jsonl.zst")
SHOWN_CONFLICTS = 5
"""Maximum number of conflicts printed."""
YEAR_2000_MS = 946_684_800_000
"""2000-01-01. Versions from then until now are taken for times; counters are smaller."""

Make = Callable[[], DocumentChange | None]
"""Deferred construction of a change; None if there is nothing to publish. Raises Rejected for an unusable file."""


def as_is(change: DocumentChange) -> Make:
    """Return what gives a change that is already there."""
    return lambda: change


Principals = Annotated[
    list[str] | None,
    typer.Option(
        "--principal",
        help="User or group that may read; may be repeated; default: everyone, unless FREKI_AUTH__JWKS is set",
        callback=not_empty,
    ),
]


def readers_of(settings: Settings, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the readers of documents; end the command where they must be named and are not."""
    if not given and settings.auth.required:
        fail(
            "--principal is missing: with FREKI_AUTH__JWKS documents name their readers, users or groups;"
            f" --principal {EVERYONE} lets all of the tenant read",
            code=2,
        )
    return tuple(given or [EVERYONE])


@dataclass(frozen=True, kw_only=True)
class FileArguments(ArgumentGroup):
    """Options for the documents of files, shared by `freki publish` and `freki watch`."""

    tenant: Tenant = None
    principal: Principals = None
    name: Annotated[
        str | None,
        typer.Option(help="First part of the document ids; default: the name of the root", callback=not_empty),
    ] = None
    root: Annotated[
        Path | None,
        typer.Option(
            parser=given_path,
            help="Folder below which paths count in ids; default: the given folder, or that of a file",
        ),
    ] = None
    language: Annotated[str | None, typer.Option(help="Such as de; default: detected", callback=not_empty)] = None
    kind: Annotated[
        str | None,
        typer.Option(
            help="Media type or extension, such as text/x-rst or rst; default: recognised", callback=not_empty
        ),
    ] = None
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Attribute to filter by; may be repeated", callback=not_empty),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Publish unchanged files too")] = False

    @property
    def chosen(self) -> bool:
        """Whether the options say what the ids are."""
        return self.name is not None or self.root is not None

    def fields(
        self, settings: Settings, *, priority: int = 0, title: str | None = None, named_elsewhere: bool = False
    ) -> FileFields:
        """Return the fields of the documents; end the command if an option is invalid.

        named_elsewhere: each document may name its own readers, so that none are needed here.
        """
        if self.language is not None and not LANGUAGE_CODE.fullmatch(self.language):
            fail(f"--language {self.language} is no code such as de or en", code=2)
        return FileFields(
            tenant=TenantId(self.tenant or settings.tenant),
            principals=() if named_elsewhere and not self.principal else readers_of(settings, self.principal),
            priority=priority,
            title=title,
            language=self.language,
            media_type=_media_type(self.kind),
            attributes=_attributes(self.attribute or []),
        )


def fields_of_folder(settings: Settings, folder: FolderSettings) -> FileFields:
    """Return the fields of the documents of a folder of the settings; end the command if its `kind` is none."""
    return FileFields(
        tenant=TenantId(folder.tenant or settings.tenant),
        principals=folder.principals,
        priority=folder.priority,
        language=folder.language,
        media_type=_media_type(folder.kind, f"folder {folder.path}: kind = "),
        attributes=folder.attributes,
    )


def _media_type(kind: str | None, option: str = "--kind ") -> str | None:
    found = kind if kind is None or "/" in kind else media_type_of(f"x.{kind.removeprefix('.')}")
    if kind is not None and found is None:
        fail(f"{option}{kind} is neither a media type such as text/markdown nor an extension such as md or pdf", code=2)
    return found


def _attributes(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not key.strip() or not equals:
            fail(f"--attribute {each} is not of the form key=value", code=2)
        if key in found:
            fail(f"--attribute {key} is given twice; an attribute has one value", code=2)
        found[key] = value
    return found


def name_readers(paths: Iterable[Path]) -> bool:
    """Return whether every line of recorded streams names the readers of its document, or deletes it."""
    return all(line.op == "delete" or line.principals is not None for path in paths for line in read_stream(path))


def recorded(path: Path, fields: FileFields) -> Iterator[DocumentChange]:
    """Yield the changes of a recorded stream, with their versions; fields: for what a line leaves out."""
    for line in read_stream(path):
        common = FileFields(tenant=fields.tenant, principals=fields.principals) if line.op == "delete" else fields
        yield DocumentChange(
            tenant=fields.tenant,
            document_id=DocumentId(line.document_id),
            operation=Operation(line.op.upper()),
            version=line.version,
            occurred_at=_occurred_at(line.version) if line.occurred_at is None else Timestamp(line.occurred_at),
            name=line.name,
            media_type=line.media_type or common.media_type,
            language=line.language or common.language,
            source_uri=line.source_uri,
            principals=fields.principals if line.principals is None else line.principals,
            attributes={**common.attributes, **line.attributes},
            priority=line.priority or fields.priority,
            content=line.content,
        )


def _occurred_at(version: int) -> Timestamp:
    """Return a version as a time, 0 (unknown) if it is none."""
    return Timestamp(version if YEAR_2000_MS <= version <= wall_clock() else 0)


@asynccontextmanager
async def open_source(settings: Settings, arguments: FileArguments, fields: FileFields) -> AsyncIterator[FileSource]:
    """Open the source of the files of a tenant, with the ledger of all that was published of them."""
    async with open_ledger(settings, f"files {fields.tenant}", Publication) as ledger:
        yield FileSource(
            fields, ledger, now=wall_clock, is_missing=is_missing, chosen=arguments.chosen, force=arguments.force
        )


def described(file: SourceFile) -> FileDocument:
    """Return what a document is to know of its file."""
    return FileDocument(
        document_id=file.document_id,
        source_uri=file.uri,
        name=file.path.name,
        media_type=file.media_type,
        modified_at=file.modified_at,
    )


def upserts(source: FileSource, files: Iterable[SourceFile], settings: Settings) -> Iterator[Make]:
    """Yield constructors of the changes of files, which read them."""
    return (partial(_upsert, source, file, settings.claims.max_bytes) for file in files)


def _upsert(source: FileSource, file: SourceFile, max_bytes: int) -> DocumentChange | None:
    return source.upsert(described(file), read_source(file, max_bytes=max_bytes))


async def identify(source: FileSource, files: Sequence[SourceFile], index: IndexedDocuments | None) -> Assignment:
    """Assign ids to files; print what it means if the index does not answer. index: None if that is known."""
    documents = [described(file) for file in files]
    try:
        if index is not None and documents:
            await source.look_up(documents, index)
    except InfraError as error:
        show_no_index(error)
    return source.assign(documents)


def show_no_index(error: InfraError) -> None:
    """Print that the index cannot be asked, and the consequence."""
    show_error(
        errors,
        "the index does not answer, so unchanged files are published again, without effect, and ids of documents that"
        f" were not published from files through this broker are not recognised: {error}",
    )


def show_conflicts(conflicts: Sequence[Conflict]) -> None:
    """Print which ids belong to other sources, and the fix."""
    for conflict in conflicts[:SHOWN_CONFLICTS]:
        document_id, source, owner = conflict
        if owner is None:
            problem = "a document that was not published from a file: choose another --name, or delete it first"
        elif conflict.is_of_twins:
            problem = f"{owner}, and differs from it only in Unicode normalisation (NFC, NFD): rename one of them"
        elif not is_missing(owner):
            problem = f"{owner}: choose another --name, or the same --root for both"
        else:
            name = document_id.partition("/")[0]
            problem = f"{owner}, which does not exist here any more: --name {name} replaces it, another --name does not"
        show_error(errors, f"{source} cannot be document {document_id}, which belongs to {problem}")
    if len(conflicts) > SHOWN_CONFLICTS:
        show_error(errors, f"{len(conflicts) - SHOWN_CONFLICTS} more files have ids of others")


class OrphanedDocuments(NamedTuple):
    """Documents of a folder that no longer have a file."""

    folder: Path
    documents: set[DocumentId]
    known: int
    """Number of all documents of the folder."""

    @property
    def is_mass_deletion(self) -> bool:
        """Whether so many are gone that the folder may be broken, such as one whose disk is not mounted."""
        return is_mass_deletion(len(self.documents), self.known)

    def show(self) -> None:
        """Print that they are not deleted."""
        show_held_back(self.documents, known=self.known, source=str(self.folder))


async def gone(
    source: FileSource, folders: Sequence[Path], files: Iterable[SourceFile], index: WholeIndex
) -> list[OrphanedDocuments]:
    """Return the documents from each of these folders that no longer have a file."""
    homes = [folder.resolve().as_uri() + "/" for folder in folders]
    there = {source.document_id(described(file)) for file in files}
    below = await source.documents_below(tuple(homes), index) if homes else {}
    # A file that is left out in its folder, such as a hidden one, may have been published by its name.
    missing = {document_id for document_id, uri in below.items() if document_id not in there and is_missing(uri)}
    found = []
    for folder, home in zip(folders, homes, strict=True):
        known = {document_id for document_id, uri in below.items() if uri.startswith(home)}
        found.append(OrphanedDocuments(folder, missing & known, len(known)))
    return found


def deletions(source: FileSource, documents: Iterable[DocumentId]) -> list[Make]:
    """Return constructors of deletions."""
    return [partial(source.delete, document_id) for document_id in sorted(documents)]
