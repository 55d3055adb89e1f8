"""`freki dead-letters`: records that could not be processed: list, show, replay."""

import getpass
from typing import Annotated

import typer
from pydantic import TypeAdapter
from rich.text import Text

from freki.cli.arguments import not_empty
from freki.cli.audited import record_command
from freki.cli.context import command, console, errors, fail, load_settings
from freki.cli.times import time_of
from freki.cli.words import counted
from freki.operators.group_letters import group_letters
from freki.schemas import AuditKind
from freki.schemas.operations import LetterGroup, ReplayResult
from freki.streams.deliver.dead_letters import DeadLetter, Letter
from freki.streams.wire.replaying import Letters, name_of, read_letters, replay_letters

letters_app = typer.Typer(help="Dead letters: records that could not be processed.", no_args_is_help=True)

_SHOWN = 5
"""Letters of a group that are listed without --all."""
_VALUE_CHARS = 600

Json = Annotated[bool, typer.Option("--json", help="Print JSON")]


@letters_app.command("list")
@command
async def letters_list(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those sent again or superseded")] = False,
    as_json: Json = False,
) -> None:
    """List the records that could not be processed, alike ones together, with reasons and times."""
    letters = await read_letters(load_settings(), values_of=lambda _: False)
    chosen = letters.by_place if everything else letters.open_ones()
    groups = group_letters(letters.view(place) for place in chosen)
    if as_json:
        typer.echo(TypeAdapter(list[LetterGroup]).dump_json(groups).decode())
        return
    if not groups:
        console.print("no dead letters" if everything or not letters.by_place else _all_settled(len(letters.by_place)))
        return
    for group in groups:
        _print_group(group, everything=everything)
    place = groups[0].letters[0].letter
    console.print(
        f"Next: `freki dead-letters show {place}` shows one. When its cause is fixed,"
        f" `freki dead-letters replay {place}` sends its record again, `replay all` sends those of all.",
        highlight=False,
        style="dim",
    )


def _all_settled(count: int) -> str:
    return f"no dead letters but {counted(count, 'one', 'ones')} sent again or superseded: --all lists them"


def _print_group(group: LetterGroup, *, everything: bool) -> None:
    since = (
        f"{time_of(group.first_at)} to {time_of(group.last_at)}" if len(group.letters) > 1 else time_of(group.last_at)
    )
    console.print(Text.assemble((f"{counted(len(group.letters), 'letter')} of {group.stage}", "bold"), f", {since}"))
    console.print(Text(f"  {group.error}: {group.message}", style="yellow"))
    shown = group.letters if everything else group.letters[:_SHOWN]
    width = max(len(each.letter) for each in shown)
    for each in shown:
        settled = "  sent again" if each.sent_again else "  superseded" if each.superseded else ""
        console.print(Text(f"  {each.letter:<{width}}  {each.key or each.record}{settled}"), soft_wrap=True)
    if hidden := len(group.letters) - len(shown):
        console.print(Text(f"  and {hidden} more: --all lists them", style="dim"))


@letters_app.command("show")
@command
async def letters_show(
    letter: Annotated[str, typer.Argument(help="partition/offset, as `list` shows it", callback=not_empty)],
    *,
    as_json: Json = False,
) -> None:
    """Show one dead letter with its headers and the beginning of its value."""
    settings = load_settings()
    letters = await read_letters(settings, values_of=lambda name: name == letter)
    place, found = _at(letters, letter)
    view = letters.view(place)
    tenant, _, document = view.key.partition("/")
    # Keys of queries and of records of relays name no tenant.
    whose, given = (tenant, [(document, 0)]) if document else ("", [])
    words = f"freki dead-letters show {view.letter}"
    await record_command(settings, AuditKind.REPORTED, words, tenant=whose, documents=given)
    if as_json:
        typer.echo(TypeAdapter(type(view)).dump_json(view).decode())
        return
    for name, value in (
        ("record", f"{view.record}, written {time_of(found.timestamp)}"),
        ("key", view.key or "none"),
        ("stage", view.stage),
        ("failed", f"{time_of(found.died_at)}, after {counted(found.attempts, 'attempt')}"),
        ("error", f"{found.error}: {found.message}"),
        ("sent again", _replays(found, sent=view.sent_again)),
        ("superseded", "by a later record of its document" if view.superseded else ""),
        ("value", _shown(found)),
        ("headers", "".join(f"\n  {header}: {_text(content)}" for header, content in found.headers) or "none"),
        ("traceback", "".join(f"\n  {line}" for line in found.traceback.splitlines())),
    ):
        if value:
            console.print(Text.assemble((f"{name:<10} ", "bold"), value), soft_wrap=True)
    if not (view.sent_again or view.superseded):
        console.print(f"Next: `freki dead-letters replay {letter}`, when the cause is fixed.", style="dim")


def _replays(letter: DeadLetter, *, sent: bool) -> str:
    before = f"; it had been sent again {counted(letter.replays, 'time')} before" if letter.replays else ""
    return f"{'yes' if sent else 'no'}{before}"


def _shown(letter: DeadLetter) -> str:
    if letter.encrypted:
        return f"{counted(len(letter.value or b''), 'byte')}, encrypted"
    if letter.omitted:
        return f"too large for the dead letter: {letter.omitted}; the original record has it until retention ends"
    if letter.value is None:
        return "none: the record deletes its document"
    return f"{counted(len(letter.value), 'byte')}\n  {_text(letter.value)}"


def _text(value: bytes) -> str:
    """Return the printable text in bytes, with a dot for each run of other characters."""
    text = value[:_VALUE_CHARS].decode(errors="replace")
    shown = "".join(each if each.isprintable() and each != "�" else "\0" for each in text)
    return " · ".join(part for part in shown.split("\0") if part.strip()) + ("…" if len(value) > _VALUE_CHARS else "")


@letters_app.command("replay")
@command
async def letters_replay(
    letter: Annotated[
        str, typer.Argument(help="partition/offset, or all: every one not settled yet", callback=not_empty)
    ],
    *,
    as_json: Json = False,
) -> None:
    """Send a record again to its original topic, after the cause of the failure is fixed, and mark its dead letter.

    With `all`, records that were already sent again are not sent. None is that would overwrite a newer state of its
    document: its dead letter is marked as superseded. Exit code 1: one was not sent for another reason.
    """
    settings = load_settings()
    letters = await read_letters(settings, values_of=lambda name: letter in (name, "all"))
    chosen = letters.open_ones() if letter == "all" else dict([_at(letters, letter)])
    # A letter that is named is sent again regardless.
    by, again = f"os:{getpass.getuser()}", letter != "all"
    results = await replay_letters(settings, letters, chosen, by=by, again=again)
    sent = sum(each.sent for each in results)
    superseded = sum(each.superseded for each in results)
    sent_before = sum(each.sent_before for each in results)
    left_out = len(results) - sent - superseded - sent_before
    if as_json:
        typer.echo(TypeAdapter(list[ReplayResult]).dump_json(results).decode())
    else:
        for each in results:
            done = "sent again" if each.sent else f"{'superseded' if each.superseded else 'not sent'}: {each.reason}"
            console.print(Text(f"{each.letter}: {done}"), style="" if each.sent else "yellow", soft_wrap=True)
        others = ((superseded, "superseded"), (sent_before, "sent before"), (left_out, "left out"))
        told = (f"{count} {what}" for count, what in others if count)
        console.print(", ".join((f"sent {counted(sent, 'record')} again", *told)))
        if sent:
            errors.print("`freki dead-letters list` shows those that fail once more", style="dim", highlight=False)
    if left_out:
        raise typer.Exit(1)


def _at(letters: Letters, name: str) -> tuple[Letter, DeadLetter]:
    """Return the dead letter at a place as `list` shows it; end the command if there is none."""
    for place, letter in letters.by_place.items():
        if name_of(place) == name:
            return place, letter
    return fail(f"there is no dead letter {name!r}; `freki dead-letters list --all` shows them")
