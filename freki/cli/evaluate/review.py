"""`freki questions review`: a person decides about proposed questions, one after the other."""

import shlex
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from freki.cli.context import console, fail
from freki.cli.prompts import answered
from freki.infra.evaluation_sets.gold import GoldQuestion, read_documents
from freki.infra.evaluation_sets.gold_file import GoldFile
from freki.infra.settings import Settings
from freki.operators.errors import OperatorError
from freki.schemas.errors import Rejected
from freki.schemas.evaluation import ReviewState
from freki.streams.evaluate.excerpt import section_excerpt
from freki.streams.wire.parsing import open_parser

EXCERPT_CHARS = 700
"""Characters of a section that are shown: enough to see whether it answers."""
CHOICES = {"k": "keep", "d": "drop", "e": "edit", "l": "later", "q": "quit"}
_PROMPT = ", ".join(f"{key} {choice}" for key, choice in CHOICES.items())
Ask = Callable[[str], str]
"""Reads a line for a prompt. Raises typer.Abort when the input ends."""
Quote = Callable[[GoldQuestion], Awaitable[str]]
"""Returns what a document says where it should answer a question."""


async def review_file(settings: Settings, path: Path) -> None:
    """Review the open questions of a file in a terminal; end the command where nobody can answer."""
    if not (console.is_terminal and sys.stdin.isatty()):
        fail(f"review needs a terminal: run it in one, or set `review:` of each question in {path}", code=2)
    file = GoldFile.read(path)
    folder = file.path.parent
    corpus = {each.document_id: each for each in read_documents([folder / each for each in file.gold.sources])}
    async with open_parser(settings) as parse:

        async def quote(question: GoldQuestion) -> str:
            name = next(iter(question.documents or ()), None)
            document = next((each for key, each in corpus.items() if key == name), None)
            if document is None:
                return "The corpus has no such document." if corpus else ""
            try:
                parsed = await parse(document.name or str(name), document.media_type, document.content)
            except (OperatorError, Rejected) as error:
                return f"It cannot be read: {error}"
            return section_excerpt(parsed.document, question.expected_sections.get(str(name), ()), EXCERPT_CHARS)

        await review(file, console, quote=quote, ask=answered)


async def review(file: GoldFile, console: Console, *, quote: Quote, ask: Ask) -> None:
    """Ask for a decision about each open question and save it at once; print how many are kept, dropped and open."""
    waiting = [place for place, each in enumerate(file.questions) if each.review is ReviewState.OPEN]
    if not waiting:
        console.print("No question is open.")
    else:
        console.print("Keep what someone would ask and the text answers; each decision is saved at once.")
    try:
        for number, place in enumerate(waiting, start=1):
            question = file.questions[place]
            _show(console, question, f"{number} of {len(waiting)} open", await quote(question))
            if not _decide(file, place, console, ask):
                break
    except typer.Abort:
        console.print()
    states = Counter(each.review for each in file.questions)
    told = ", ".join(f"{state} {states[state]}" for state in (ReviewState.KEPT, ReviewState.DROPPED, ReviewState.OPEN))
    console.print(Text(f"{file.path}: {told}", style="bold"), soft_wrap=True)
    next_step = "Go on with: freki questions review" if states[ReviewState.OPEN] else "Measure with: freki eval"
    console.print(Text(f"{next_step} {shlex.quote(str(file.path))}"), soft_wrap=True)


def _show(console: Console, question: GoldQuestion, title: str, text: str) -> None:
    """Print a question with the place and the words that should answer it."""
    console.print()
    name = next(iter(question.documents or ()), "any document")
    sections = ", ".join(heading for headings in question.expected_sections.values() for heading in headings)
    made = f"from {question.origin}" if question.origin else "by hand"
    console.rule(Text(f"{title}, {made}" + f", part {question.part}" * bool(question.part)), style="dim")
    console.print(Text(question.question, style="bold cyan"))
    console.print(Text(f"{name}" + f" › {sections}" * bool(sections), style="dim"))
    body = Text("\n".join(question.expected_spans) if question.expected_spans else text)
    kind = (
        "words that answer it" if question.expected_spans else f"beginning of the {'section' if sections else 'text'}"
    )
    if body.plain:
        console.print(Panel(body, title=Text(kind, style="dim"), title_align="left", border_style="dim"))


def _decide(file: GoldFile, place: int, console: Console, ask: Ask) -> bool:
    """Ask until there is a decision, and save it; return False to stop."""
    while True:
        answer = ask(_PROMPT).strip().casefold()
        match next((key for key, choice in CHOICES.items() if answer and choice.startswith(answer)), ""):
            case "k":
                file.decide(place, ReviewState.KEPT)
            case "d":
                file.decide(place, ReviewState.DROPPED)
            case "e":
                wording = " ".join(ask("new wording; empty: as it was").split())
                if not wording:
                    continue
                file.decide(place, ReviewState.KEPT, wording=wording)
            case "l":
                return True
            case "q":
                return False
            case _:
                console.print(f"Type one of the letters {', '.join(CHOICES)}, then Enter.", style="yellow")
                continue
        file.save()
        return True
