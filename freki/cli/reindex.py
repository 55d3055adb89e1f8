"""`freki reindex`: reindex documents by the settings in force, from the changes on the documents topic."""

from collections.abc import Container, Sequence
from typing import Annotated

import typer
from rich.text import Text

from freki.cli.arguments import Patience, expanded, not_empty
from freki.cli.context import command, console, fail, load_settings
from freki.cli.receipts import PATIENCE_S, SHOWN_PROBLEMS, show_receipts
from freki.cli.repeat import repeat
from freki.cli.selection import SelectionArguments, chosen, is_agreed
from freki.cli.words import counted
from freki.infra.settings import Settings
from freki.operators.identify import record_key
from freki.schemas import RootId
from freki.schemas.index import Selection
from freki.streams.wire.connect import open_index


@command
@expanded
async def reindex(
    documents: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids, as `freki documents list` shows them; without: those made with other settings",
            callback=not_empty,
        ),
    ] = None,
    *,
    given: SelectionArguments,
    force: Annotated[
        bool, typer.Option("--force", help="Also documents that were made with these settings; ids never need it")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Begin without asking")] = False,
    patience: Patience = PATIENCE_S,
) -> None:
    """Index documents again with the current settings; versions do not change, and documents stay searchable.

    Exit code 1: some were not, or the workers have other settings than this command.
    """
    settings = load_settings()
    if documents and given.is_given():
        fail("name documents, or give conditions such as --prefix, and not both", code=2)
    selection = given.selection(settings, otherwise=not force)
    async with open_index(settings) as index:
        roots = await chosen(index, selection, documents or ())
    for root in (root for root in roots if root.deleted):
        console.print(Text(f"{root.document_id} is deleted", style="yellow"))
    live = sorted((root for root in roots if not root.deleted), key=lambda root: root.document_id)
    if not live:
        console.print(Text(f"nothing to reindex{_nothing(selection, given, documents or ())}"), soft_wrap=True)
        return
    chunks = sum(root.chunks for root in live)
    if not documents and not is_agreed(
        live, f"reindex {counted(len(live), 'document')}, now {counted(chunks, 'chunk')}", yes=yes
    ):
        raise typer.Exit(1)
    wanted = {record_key(root.tenant, root.document_id): root.version for root in live}
    above = {record_key(root.tenant, root.document_id): root.edition for root in live}
    done = await repeat(settings, wanted, above=above, patience_s=patience)
    is_fine = show_receipts(done.outcomes, missing=done.missing)
    for key, reason in list(done.reasons.items())[:SHOWN_PROBLEMS]:
        console.print(Text(f"not reindexed: {key.decode()}: {reason}", style="yellow"), soft_wrap=True)
    if len(done.reasons) > SHOWN_PROBLEMS:
        console.print(f"… and {len(done.reasons) - SHOWN_PROBLEMS} more")
    if not is_fine or done.reasons:
        raise typer.Exit(1)
    if not (force or documents):
        await _check_settings(settings, selection, {root.root_id for root in live})


def _nothing(selection: Selection, given: SelectionArguments, documents: Sequence[str]) -> str:
    """Return which documents there are none of; empty where some are named."""
    if documents:
        return ""
    rules = [("meets these conditions", given.is_given()), ("was made with other settings", selection.not_made_by)]
    which = " and ".join(rule for rule, counts in rules if counts)
    return f": tenant {selection.tenant} has no document{which and f' that {which}'}; --tenant selects another tenant"


async def _check_settings(settings: Settings, selection: Selection, reindexed: Container[RootId]) -> None:
    """End the command if documents are still made with other settings: it would ask for them again for ever."""
    async with open_index(settings) as index:
        left = [root for root in await chosen(index, selection, ()) if root.root_id in reindexed]
    if left:
        were = "was" if len(left) == 1 else "were"
        fail(
            f"{counted(len(left), 'document')} {were} made with other settings again: workers have others than this"
            " command; give both the same, restart the workers, and reindex once more"
        )
