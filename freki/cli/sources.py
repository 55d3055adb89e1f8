"""Options and publishing shared by the commands whose source keeps a ledger."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Generic, Protocol, TypeVar

import typer

from freki.cli.arguments import ArgumentGroup, Priority, Tenant, finite
from freki.cli.bars import bars
from freki.cli.changes import Principals, readers_of
from freki.cli.context import console, errors
from freki.cli.receipts import PATIENCE_S, collect, show_receipts
from freki.cli.show import show_error
from freki.infra.settings import Settings
from freki.infra.signals import run_until_stopped
from freki.schemas import DocumentChange
from freki.schemas.errors import Unavailable
from freki.streams.client import Publisher, Receipts
from freki.streams.feed.ledger import SourceLedger
from freki.streams.wire.connect import open_ledger, open_publisher, open_receipts

T = TypeVar("T")

SHOWN = 5
"""Maximum number of unpublished items named."""


@dataclass(frozen=True, kw_only=True)
class SourceArguments(ArgumentGroup):
    """Options that `freki git` and `freki crawl` share."""

    every: Annotated[
        float | None,
        typer.Option(help="Seconds between polls, until Ctrl-C; default: one poll", min=0.1, callback=finite),
    ] = None
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the receipt of each change")] = False
    priority: Priority = 0
    tenant: Tenant = None
    principal: Principals = None
    force: Annotated[
        bool, typer.Option("--force", help="Publish what is unchanged too; with --every only the first time")
    ] = False

    def readers(self, settings: Settings) -> tuple[str, ...]:
        """Return the readers of the documents; end the command where they must be named and are not."""
        return readers_of(settings, self.principal)


class Feed(Generic[T]):
    """Publisher of a source, with the ledger of earlier publications."""

    def __init__(self, publisher: Publisher, ledger: SourceLedger[T], receipts: Receipts | None) -> None:
        self.ledger = ledger
        self._publisher = publisher
        self._receipts = receipts
        self._sent = 0

    async def publish(self, changes: Sequence[DocumentChange]) -> None:
        """Publish changes; return once the broker has them."""
        if self._receipts is not None:
            for change in changes:
                self._receipts.expect(change)
        await self._publisher.publish(*changes)
        self._sent += len(changes)

    async def settle(self) -> bool:
        """With receipts, wait for them and print them; return whether every change succeeded."""
        if self._receipts is None or not self._sent:
            return True
        with bars() as progress:
            outcomes = await collect(self._receipts, total=self._sent, progress=progress, patience_s=PATIENCE_S)
        missing, self._sent = self._sent - len(outcomes), 0
        return show_receipts(outcomes, missing=missing)


@asynccontextmanager
async def open_feed(settings: Settings, source: str, kind: type[T], *, wait: bool) -> AsyncIterator[Feed[T]]:
    """Open publisher, receipts and ledger of a source. Later runs find the ledger by the name of the source."""
    async with AsyncExitStack() as opened:
        # Open before the first change is sent, so that no receipt is missed.
        receipts = await opened.enter_async_context(open_receipts(settings)) if wait else None
        publisher = await opened.enter_async_context(open_publisher(settings))
        yield Feed(publisher, await opened.enter_async_context(open_ledger(settings, source, kind)), receipts)


class Poll(Protocol):
    """Poll of a source; force: publish what is unchanged too. Returns whether every change succeeded."""

    async def __call__(self, *, force: bool) -> bool:
        """Poll once."""


async def poll_repeatedly(poll: Poll, *, every: float | None, force: bool) -> None:
    """Poll a source once, or every `every` seconds until SIGTERM or Ctrl-C, and through outages.

    force: publish what is unchanged too, until that has succeeded once.
    """
    if every is None:
        if not await poll(force=force):
            raise typer.Exit(1)
        return
    await run_until_stopped(_poll(poll, every_s=every, force=force))


async def _poll(poll: Poll, *, every_s: float, force: bool) -> None:
    while True:
        try:
            await poll(force=force)
            force = False
        except Unavailable as error:
            show_error(errors, f"{error}; trying again in {every_s:g} s")
        await asyncio.sleep(every_s)


def show_first(found: Sequence[str], *, each: str, together: str) -> None:
    """Print the first `SHOWN` items that were not published, each with its outcome, then their number."""
    for one in found[:SHOWN]:
        show_error(errors, f"{each}: {one}")
    if len(found) > SHOWN:
        console.print(f"{len(found)} {together}")
