"""Show results in a terminal."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from freki.infra.telemetry.trace_files import SpanRecord
from freki.operators.age import UNKNOWN_AGE
from freki.schemas import (
    ChunkKind,
    Confidence,
    ContextExpansion,
    ContextHit,
    ContextPart,
    ContextResult,
    Notice,
    NoticeKind,
    ResultStatus,
    StageTime,
)
from freki.streams.observe.attributes import (
    ERROR_TYPE,
    FREKI_DOCUMENT_ID,
    FREKI_ITEMS,
    FREKI_STATUS,
    GEN_AI_REQUEST_MODEL,
)

SHOWN_CHARACTERS = 420
SHOWN_HEADINGS = 2
_PROSE = frozenset({ChunkKind.PROSE, ChunkKind.LIST})
_WRAPPED = 45
"""Length from which a line may be one that was wrapped: addresses and verses have shorter ones."""
_BEGINS = re.compile(r"\s*([-*+•–|>#§]|```|\(?\w{1,3}[.)]\s|\[)|\s{4}")
"""What begins a line that goes on with none before: items, headings, tables, quotes, code."""
BAR_WIDTH = 24
WHOLE_DOCUMENT = "0"
NANOS = 1_000_000
_TOLD = (FREKI_DOCUMENT_ID, FREKI_STATUS, FREKI_ITEMS, GEN_AI_REQUEST_MODEL, ERROR_TYPE)
"""Attributes that are shown with a span."""
DOUBTS = frozenset({NoticeKind.DEGRADED, NoticeKind.FRESHNESS, NoticeKind.REJECTED, NoticeKind.UNMET})
"""Kinds of notices that stand above the hits; the others say what was left out."""
_ADVISED = ("exact", NoticeKind.UNMET)
"""Stage and kind of notices that advice repeats in the language of the question, if there is advice."""
_NOTICE_STYLE = {
    NoticeKind.DEGRADED: "yellow",
    NoticeKind.SKIPPED: "yellow",
    NoticeKind.DROPPED: "dim",
    NoticeKind.FRESHNESS: "yellow",
    NoticeKind.REJECTED: "red",
    NoticeKind.UNMET: "yellow",
}


def show_result(
    console: Console, result: ContextResult, *, question: str, whole: bool = False, verbose: bool = False
) -> None:
    """Print what puts the answer in doubt, then hits with citations and their text: whole, with neighbours, or a part.

    verbose: also versions, all scores, what stands around the best hit, and the time of each step.
    """
    console.print()
    console.print(Text(question, style="bold"))
    # Who reads from the top must not take for an answer what is none.
    for line in _doubts(result):
        console.print(Padding(line, (0, 2)))
    is_answered = result.confidence is not Confidence.NONE
    for hit in result.hits:
        text = hit.text if whole else _reflowed(_part(hit), hit.kind)
        around = (hit.before, hit.after) if whole else ((), ())
        console.print(_hit(hit, text, around, verbose=verbose, is_first=hit.rank == 1 and is_answered))
    if result.hits and result.hits[0].parent is not None and result.hits[0].parent.path == WHOLE_DOCUMENT:
        console.print(_around(result.hits[0].name, result.hits[0].parent, whole=verbose))
    for _, further in groupby(result.expansions, key=lambda expansion: expansion.document_id):
        console.print(_further(list(further)))
    for notice in result.notices:
        if notice.kind not in DOUBTS:
            console.print(Padding(_notice(notice), (0, 2)))
    console.print(Padding(_summary(result, verbose=verbose), (0, 2)))
    if result.stages and verbose:
        console.print(Padding(_stages(result.stages), (0, 2)))


def _doubts(result: ContextResult) -> Iterator[Text]:
    # Advice says so in the language of the query; there is none for chunks that are read by name.
    if not result.hits and not result.advice and result.status in {ResultStatus.EMPTY, ResultStatus.DEGRADED}:
        yield Text("Nothing was found. That does not mean that nothing exists.", style="yellow")
    for advice in result.advice:
        yield Text(f"→ {advice}", style="yellow")
    for notice in result.notices:
        is_said = bool(result.advice) and (notice.stage, notice.kind) == _ADVISED
        if notice.kind in DOUBTS and not is_said:
            yield _notice(notice)


def _notice(notice: Notice) -> Text:
    return Text(f"{notice.kind.lower()} · {notice.stage}: {notice.message}", style=_NOTICE_STYLE[notice.kind])


def _part(hit: ContextHit) -> str:
    if hit.snippets:
        return " … ".join(snippet.text for snippet in hit.snippets)
    return hit.text if len(hit.text) <= SHOWN_CHARACTERS else hit.text[:SHOWN_CHARACTERS].rsplit(" ", 1)[0] + " …"


def _hit(
    hit: ContextHit,
    text: str,
    around: tuple[Sequence[ContextPart], Sequence[ContextPart]],
    *,
    verbose: bool,
    is_first: bool,
) -> RenderableType:
    before, after = ([Text(part.text, style="dim") for part in side] for side in around)
    where = " › ".join(hit.heading_path[-SHOWN_HEADINGS:]) or hit.name
    age = "" if hit.age_ms == UNKNOWN_AGE else f"  {_age(hit.age_ms)} old"
    origin = f"{hit.document_id}  characters {hit.start}–{hit.end}{age}  score {hit.score:.3f}"
    lines = [
        # Not the title of the panel, which would be cut.
        Text(hit.citation, style="cyan", overflow="fold"),
        Text(where, style="bold"),
        *([Text("summary by a language model", style="dim")] if hit.generated else []),
        *before,
        Text(text),
        *after,
        Text(origin, style="dim", overflow="fold"),
    ]
    if verbose:
        lines.append(Text("  ".join([f"version {hit.version}", *_scores(hit)]), style="dim"))
    if hit.duplicates:
        others = dict.fromkeys(f"{each.document_id}  version {each.version}" for each in hit.duplicates)
        lines.append(Text(f"the same stands in {', '.join(others)}", style="dim", overflow="fold"))
    return Panel(
        Group(*lines),
        title=Text(str(hit.rank), style="cyan"),
        title_align="left",
        border_style="cyan" if is_first else "dim",
    )


def _scores(hit: ContextHit) -> Iterator[str]:
    for name, score in (
        ("dense", hit.dense_score),
        ("BM25", hit.lexical_score),
        ("fused", hit.fused_score),
        ("reranked", hit.rerank_score),
    ):
        yield f"{name} –" if score is None else f"{name} {score:.3f}"
    if hit.judged:
        yield f"judged {hit.judged:+.3f}"


def _reflowed(text: str, kind: ChunkKind) -> str:
    """Return prose without the line breaks of its source, which a terminal would break again at other places."""
    if kind not in _PROSE:
        return text
    lines: list[str] = []
    for line in text.splitlines():
        goes_on = lines and len(lines[-1]) >= _WRAPPED and line.strip() and not _BEGINS.match(line)
        if goes_on:
            lines[-1] = f"{lines[-1].rstrip()} {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines)


def _around(name: str, part: ContextPart, *, whole: bool) -> RenderableType:
    if not whole:
        said = f"{name} is in the context as a whole, {len(part.text):,} characters: --verbose shows it"
        return Padding(Text(said, style="dim"), (0, 2))
    lines = "\n".join(line for line in part.text.splitlines() if line.strip())
    return Panel(Text(lines, style="dim"), title=Text(f"around it: {name}"), title_align="left", border_style="dim")


def _further(expansions: Sequence[ContextExpansion]) -> RenderableType:
    """Show further chunks of a document, one per line."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(width=3, justify="right")
    table.add_column(width=5, justify="right")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for each in expansions:
        where = each.heading_path[-1] if each.heading_path else ""
        line = " ".join(f"{where}  {each.text}".split())
        table.add_row(*(Text(cell, style="dim") for cell in (str(each.number), f"{each.similarity:.2f}", line)))
    title = Text(f"further in {expansions[0].name}, by similarity")
    return Panel(table, title=title, title_align="left", border_style="dim")


def _age(milliseconds: int) -> str:
    # Two machines may have told these times.
    seconds = max(0, milliseconds) / 1000
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def _summary(result: ContextResult, *, verbose: bool) -> Text:
    parts = [result.status.lower(), *(_details(result) if verbose else ())]
    if result.cached_ms is not None:
        parts.append(f"an answer of {_age(result.cached_ms)} ago")
    parts.append(f"{max(0, result.answered_at - result.asked_at)} ms from query to answer")
    return Text(" · ".join(parts), style="dim")


def _details(result: ContextResult) -> Iterator[str]:
    yield f"reranker {result.reranker}"
    if result.analysis is not None:
        analysis = result.analysis
        weight = "" if analysis.alpha is None else f", alpha {analysis.alpha:.2f}"
        yield f"{analysis.language}, {analysis.query_type.lower()}{weight}"
    fresh = result.freshness
    if fresh.last_commit_at is not None:
        yield f"last change {_age(result.answered_at - fresh.last_commit_at)} ago, {fresh.consistency.lower()}"


def _stages(stages: Iterable[StageTime]) -> Table:
    stages = list(stages)
    longest = max(stage.milliseconds for stage in stages) or 1.0
    table = Table.grid(padding=(0, 2))
    for stage in stages:
        bar = "█" * max(1, round(BAR_WIDTH * stage.milliseconds / longest)) if stage.milliseconds > 0 else ""
        table.add_row(
            Text(stage.stage, style="dim"),
            Text(f"{stage.milliseconds:7.1f} ms", style="dim"),
            Text(f"{stage.items}", style="dim", justify="right"),
            Text(bar, style="cyan"),
        )
    return table


def show_error(console: Console, message: str) -> None:
    """Print an error and its fix."""
    # A terminal would break lines within words; other programs read one line.
    console.print(f"[bold red]freki:[/] {escape(message)}", soft_wrap=not console.is_terminal)


def show_trace(console: Console, trace_id: str, spans: Sequence[SpanRecord]) -> None:
    """Print the spans of a trace as a tree, ordered by start."""
    if not spans:
        console.print(Text(f"no span of trace {trace_id} was written yet", style="yellow"))
        return
    known = {span.span_id for span in spans}
    below: defaultdict[str | None, list[SpanRecord]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start_ns):
        below[span.parent_id if span.parent_id in known else None].append(span)
    begin = min(span.start_ns for span in spans)
    tree = Tree(Text(f"trace {trace_id}", style="bold"))

    def grow(branch: Tree, parent: str | None) -> None:
        for span in below[parent]:
            grow(branch.add(_span(span, begin)), span.span_id)

    grow(tree, None)
    console.print(tree)


def _span(span: SpanRecord, begin_ns: int) -> Text:
    lasted_ms = (span.end_ns - span.start_ns) / NANOS
    told = [str(span.attributes[name]) for name in _TOLD if name in span.attributes]
    return Text.assemble(
        (span.name, "red" if span.failed else ""),
        (f"  {lasted_ms:.1f} ms", "cyan"),
        f"  {' '.join(told)}" if told else "",
        (f"  at {(span.start_ns - begin_ns) / NANOS:.1f} ms  {span.service}", "dim"),
    )


@contextmanager
def building() -> Iterator[Callable[[int, int, str], None]]:
    """Show the progress of building models."""
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), transient=True
    ) as progress:
        bar = progress.add_task("models", total=None)

        def report(done: int, total: int, message: str) -> None:
            progress.update(bar, completed=done, total=total, description=message)

        yield report
