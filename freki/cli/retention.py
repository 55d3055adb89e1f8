"""`freki retention`: what is to go by the rules of the settings, and when."""

from typing import Annotated

import typer
from rich.text import Text

from freki.cli.arguments import finite
from freki.cli.cases import by_user
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.rows import AsJson, print_json, whole_table
from freki.cli.times import time_of
from freki.cli.words import counted
from freki.infra.settings import Settings
from freki.infra.settings.privacy import MOST_DAYS
from freki.schemas import Timestamp
from freki.streams.privacy.retention import DueDocument
from freki.streams.topics import DAY_MS
from freki.streams.wire.erasing.retention import open_retention
from freki.streams.wire.from_settings import wall_clock

retention_app = typer.Typer(
    help="Rules that delete or erase documents after a time: FREKI_RETENTION__RULES.", no_args_is_help=True
)


@retention_app.command("check")
@command
async def check(
    *,
    days: Annotated[
        float, typer.Option(help="Also what is due within so many days", min=0, max=MOST_DAYS, callback=finite)
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Show which documents would be deleted or erased, when, by which rule, and which are held; change nothing."""
    settings = _settings()
    table = whole_table("tenant", "document", "version", "due", "rule", "", box=None)
    async with open_retention(settings, by=by_user()) as retention:
        async for each in retention.check(by=Timestamp(wall_clock() + round(days * DAY_MS))):
            if as_json:
                print_json(_described(each))
                continue
            due, root = each.due, each.due.root
            held = f"held: {', '.join(each.held)}" if each.held else due.rule.action.lower()
            names = (Text(root.tenant), Text(root.document_id))
            table.add_row(*names, str(root.version), time_of(due.at), Text(due.rule.name), Text(held))
    if not as_json:
        console.print(table if table.row_count else "nothing is due")


@retention_app.command("run")
@command
async def run() -> None:
    """Delete or erase what is due, unless it is held; the reports of erasures are on the topic `erasure-reports`."""
    settings = _settings()
    async with open_retention(settings, by=by_user()) as retention:
        done = await retention.run()
    console.print(f"{done.deleted} deleted, {done.erased} erased, {done.held} held, {done.later} have a later version")
    if done.incomplete:
        console.print(
            f"[yellow]{counted(done.incomplete, 'document')} not erased whole: the reports on `erasure-reports` name "
            "what is left; `freki retention run` goes on[/]",
            soft_wrap=True,
        )
    if done.kept:
        console.print(
            f"{counted(done.kept, 'document')} of erasures that broke off not erased: the rule erases them no more",
            soft_wrap=True,
        )
    for failure in done.failures:
        errors.print(Text(f"not done: {failure}", style="yellow"), soft_wrap=True)
    if done.unanswered:
        fail(
            f"{counted(done.unanswered, 'deletion')} without a receipt: do workers run? "
            "`freki retention run` looks again"
        )
    if done.incomplete or done.failures:
        raise typer.Exit(1)


def _settings() -> Settings:
    settings = load_settings()
    if not settings.retention.rules:
        fail("there are no rules: set FREKI_RETENTION__RULES, or [[retention.rules]] in freki.toml", code=2)
    return settings


def _described(each: DueDocument) -> dict[str, object]:
    root = each.due.root
    return {
        "tenant": root.tenant,
        "document_id": root.document_id,
        "version": root.version,
        "due_ms": each.due.at,
        "rule": each.due.rule.name,
        "action": each.due.rule.action,
        "held": list(each.held),
    }
