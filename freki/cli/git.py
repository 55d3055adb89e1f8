"""`freki git`: publish the commits of a repository as document changes."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from freki.cli.arguments import expanded, given_path, not_empty
from freki.cli.context import command, console, fail, load_settings
from freki.cli.sources import SourceArguments, open_feed, poll_repeatedly, show_first
from freki.cli.words import counted
from freki.infra.sources import GitRepository, is_skipped, media_type_of
from freki.operators.recognise import recognise
from freki.schemas import TenantId
from freki.streams.feed.git import DocumentFields, GitSource, Mark


@command
@expanded
async def publish_git(
    repository: Annotated[
        Path, typer.Argument(parser=given_path, help="Git repository, bare or with a working tree", show_default=False)
    ],
    *,
    branch: Annotated[str, typer.Option(help="Branch, tag or commit", callback=not_empty)] = "HEAD",
    name: Annotated[
        str | None, typer.Option(help="Prefix of the document ids; default: the folder's name", callback=not_empty)
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Publish each commit in order, not only the latest state")
    ] = False,
    fetch: Annotated[bool, typer.Option("--fetch", help="Fetch from the repository's origin before each poll")] = False,
    publishing: SourceArguments,
) -> None:
    """Publish the files of a branch, later only the changes of its new commits."""
    settings = load_settings()
    readers = publishing.readers(settings)
    whose = TenantId(publishing.tenant or settings.tenant)
    if not repository.is_dir():
        fail(f"{repository} is no folder", code=2)
    name = name or name_of(repository)
    with GitRepository(repository, branch, max_bytes=settings.claims.max_bytes) as git:
        async with open_feed(settings, f"git {whose}/{name}", Mark, wait=publishing.wait) as feed:
            source = GitSource(
                git,
                feed.ledger,
                feed.publish,
                documents=DocumentFields(name=name, tenant=whose, principals=readers, priority=publishing.priority),
                is_skipped=is_skipped,
                media_type=_media_type,
            )

            async def poll(*, force: bool) -> bool:
                if fetch:
                    await asyncio.to_thread(git.fetch)
                tally = await source.sync(history=history, force=force)
                show_first(tally.left_out, each="left out", together="files were left out")
                if tally.upserts or tally.deletes or publishing.every is None:
                    console.print(
                        f"{name}: published {counted(tally.upserts, 'upsert')}, {counted(tally.deletes, 'deletion')}"
                    )
                return await feed.settle()

            await poll_repeatedly(poll, every=publishing.every, force=publishing.force)


def name_of(repository: Path) -> str:
    """Return the name of a repository's folder, also where the path is that of `.git` in it."""
    path = repository.resolve()
    return (path.parent if path.name == ".git" else path).name.removesuffix(".git")


def _media_type(path: str, content: bytes) -> str | None:
    """Return the media type by file name. Raises UnreadableContent if no parser reads the content."""
    media_type = media_type_of(path)
    recognise(path, media_type, content)
    return media_type
