"""`freki delete`: delete documents by id or by what they have in common."""

from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated

import typer
from rich.text import Text

from freki.cli.arguments import Ids, WithWait, expanded
from freki.cli.bars import bars
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.other_generation import show_other_generation
from freki.cli.receipts import PATIENCE_S, collect, send, show_receipts
from freki.cli.rows import print_json
from freki.cli.selection import SelectionArguments, chosen, is_agreed
from freki.cli.words import counted
from freki.schemas import DocumentChange, Operation, Timestamp
from freki.schemas.index import Root
from freki.streams.wire.connect import open_index, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock


@command
@expanded
async def delete(
    documents: Ids = None,
    *,
    given: SelectionArguments,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the receipt of each deletion")] = False,
    patience: WithWait = PATIENCE_S,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead: each receipt in a line, or the number of deletions")
    ] = False,
) -> None:
    """Delete documents, given by id or by conditions; a condition first shows how many it selects.

    The deletion has the version that is indexed, over which it wins, so the producer's next version brings the document
    back.
    """
    settings = load_settings()
    if bool(documents) == given.is_given():
        fail("name documents, or give conditions such as --prefix, and not both", code=2)
    selection = given.selection(settings)
    async with open_index(settings) as index:
        roots = await chosen(index, selection, documents or ())
    live = sorted((root for root in roots if not root.deleted), key=lambda root: root.document_id)
    said = errors if as_json else console
    for root in (root for root in roots if root.deleted):
        said.print(Text(f"{root.document_id} is deleted already", style="yellow"))
    if not live:
        said.print("nothing to delete")
        return
    if not documents and not is_agreed(live, f"delete {counted(len(live), 'document')}", yes=yes):
        raise typer.Exit(1)
    await show_other_generation(settings)
    async with AsyncExitStack() as opened:
        receipts = await opened.enter_async_context(open_receipts(settings)) if wait else None
        publisher = await opened.enter_async_context(open_publisher(settings))
        with bars() as progress:
            makes = [partial(_deletion, root) for root in live]
            sent = (await send(publisher, receipts, makes, total=len(live), progress=progress)).changes
            outcomes = await collect(receipts, total=sent, progress=progress, patience_s=patience) if receipts else []
    if receipts is None and as_json:
        print_json({"published": sent})
    elif receipts is None:
        console.print(f"Sent {counted(sent, 'deletion')}. Use --wait to see the receipts.")
    elif not show_receipts(outcomes, missing=sent - len(outcomes), as_json=as_json):
        raise typer.Exit(1)
    if sent < len(live):
        raise typer.Exit(1)


def _deletion(root: Root) -> DocumentChange:
    return DocumentChange(
        tenant=root.tenant,
        document_id=root.document_id,
        operation=Operation.DELETE,
        version=root.version,
        occurred_at=Timestamp(wall_clock()),
    )
