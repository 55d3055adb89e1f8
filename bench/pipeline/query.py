"""Query latency, in total and by step, by number of queries in flight and size of the index.

The latency of a query, from the client's call to the decoded answer, is divided into

- model: the steps of `MODEL`, and store: the steps of `STORE`. A step is timed around its call, including the client
  library and the conversion of rows to records. Dense and lexical search run concurrently: the longer one counts;
- steps: computation of Freki, such as `analyse`, `fuse`, `diversify`, `assemble`;
- transport: all untimed rest: Avro, both topics, waiting for a batch and for the batch before it, telemetry.

Freki's own share is steps and transport.

A burst is `BURST` concurrent queries to an idle worker.

With a deadline of `DEADLINE_MS`, an answer is late if the client receives it after that; skipped work is taken from the
notices of the answers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from rich.table import Table

from bench.pipeline.ground import Asked, Figures, Ground, Stack, ask, indexed, open_filled, percentiles, questions
from bench.pipeline.plots import lines, short, stacked
from bench.pipeline.processes import cpu_spent
from freki.schemas import ContextResult, NoticeKind, RerankerChoice, StageTime
from freki.streams.retrieve.candidates import NO_RERANKER
from freki.streams.retrieve.steps.match import STEP as MATCHED
from freki.streams.retrieve.steps.rerank import COSINE
from freki.streams.retrieve.steps.rerank import STEP as RERANKED

TITLE = "Queries: how long an answer takes, and where the time goes"
AT_ONCE = (1, 4, 16)
QUESTIONS, QUICK_QUESTIONS = 300, 32
WARM_UP = 16
SHARES = ("p50", "p95", "p99")
COLOURS = ("#08519c", "#6baed6", "#006d2c", "#74c476", "#a63603", "#fd8d3c")
"""Colours of the parts: two shades each for model, store and own."""
CUT = {NoticeKind.DEGRADED, NoticeKind.SKIPPED}
DEADLINE_MS = 300
BURST, BURSTS = 20, 5
RERANKING = {"on": RerankerChoice.AUTO, "off": RerankerChoice.NONE}
MODEL = ("embed",)
SEARCHES = ("search.dense", "search.lexical")
STORE = (*SEARCHES, MATCHED, "manifest", "load", "locate", "freshness", "augment", "recheck")


async def measure(ground: Ground) -> Figures:
    """Fill the index to each size in ascending order, and measure."""
    asked = await questions(ground, QUICK_QUESTIONS if ground.quick else QUESTIONS)
    return {"questions": len(asked), "sizes": [await _at_size(ground, size, asked) for size in ground.sizes]}


async def _at_size(ground: Ground, size: int, asked: Sequence[str]) -> Figures:
    async with open_filled(ground, size) as stack:
        held = await indexed(stack.settings)
        await ask(stack.settings, asked[:WARM_UP], at_once=1)
        runs = await _runs(ground, stack, asked, ("on", "off"))
        hurried = await _hurried(ground, stack, asked)
        bursts = await _bursts(ground, stack, asked)
    runs.sort(key=lambda run: (run["at_once"], list(RERANKING).index(run["reranking"])))
    return {"documents": len(held), "chunks": sum(held.values()), "runs": runs, "hurried": hurried, "bursts": bursts}


async def _runs(ground: Ground, stack: Stack, asked: Sequence[str], reranking: Sequence[str]) -> list[Figures]:
    runs = []
    with ground.step(f"queries, reranking {', '.join(reranking)}", len(asked) * len(AT_ONCE) * len(reranking)) as go:
        for at_once in AT_ONCE:
            for each in reranking:
                with cpu_spent(stack.pids) as spent_s:
                    answers = await ask(stack.settings, asked, at_once=at_once, advance=go, reranker=RERANKING[each])
                cpu_ms = {name: 1000 * seconds / len(asked) for name, seconds in spent_s.items()}
                runs.append({"at_once": at_once, "reranking": each, "cpu_ms": cpu_ms, **_run(answers)})
    return runs


async def _hurried(ground: Ground, stack: Stack, asked: Sequence[str]) -> list[Figures]:
    runs = []
    with ground.step(f"queries with a deadline of {DEADLINE_MS} ms", len(asked) * len(AT_ONCE)) as advance:
        for at_once in AT_ONCE:
            answers = await ask(stack.settings, asked, at_once=at_once, advance=advance, deadline_ms=DEADLINE_MS)
            runs.append({"at_once": at_once, **lateness(answers), **_kept(answers)})
    return runs


def lateness(answers: Sequence[Asked]) -> Figures:
    """Count the answers that arrived late, and those that were sent late."""
    return {
        "late": sum(answer.milliseconds > DEADLINE_MS for answer in answers),
        "left_late": sum(answer.result.answered_at - answer.result.asked_at > DEADLINE_MS for answer in answers),
    }


async def _bursts(ground: Ground, stack: Stack, asked: Sequence[str]) -> list[Figures]:
    found = []
    with ground.step(f"bursts of {BURST} queries", BURST * BURSTS) as advance:
        for first in range(0, BURST * BURSTS, BURST):
            texts = [asked[place % len(asked)] for place in range(first, first + BURST)]
            answers = await ask(stack.settings, texts, at_once=BURST, advance=advance)
            found.append({"seconds": _seconds(answers), **_kept(answers)})
    return found


def _seconds(answers: Sequence[Asked]) -> float:
    """Return the seconds from the first query to the last answer."""
    return max(answer.ended_s for answer in answers) - min(answer.started_s for answer in answers)


def _kept(answers: Sequence[Asked]) -> Figures:
    shed = Counter(
        stage
        for answer in answers
        for stage in {notice.stage for notice in answer.result.notices if notice.kind in CUT}
    )
    reached = [answer.result for answer in answers if answer.result.hits]
    return {
        "questions": len(answers),
        "whole_ms": _spread(answer.milliseconds for answer in answers),
        "statuses": dict(Counter(answer.result.status for answer in answers)),
        "shed": dict(shed.most_common()),
        "reranked": fmean(reranked(result) for result in reached) if reached else 0.0,
    }


def reranked(result: ContextResult) -> int:
    """Return the number of candidates scored by late interaction or by a model; the cosine fallback does not count."""
    if result.reranker in {COSINE, NO_RERANKER}:
        return 0
    return max((stage.items for stage in result.stages if stage.stage in {MATCHED, RERANKED}), default=0)


def _run(answers: Sequence[Asked]) -> Figures:
    shares: defaultdict[str, list[float]] = defaultdict(list)
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for answer in answers:
        times = stage_times(answer.result.stages)
        for stage, milliseconds in times.items():
            stages[stage].append(milliseconds)
        for share, milliseconds in shared(times, answer.milliseconds).items():
            shares[share].append(milliseconds)
    return {
        "questions_per_s": len(answers) / _seconds(answers),
        "whole_ms": _spread(answer.milliseconds for answer in answers),
        "stages_ms": {stage: _spread(values) for stage, values in stages.items()},
        "shares_ms": {share: _spread(values) for share, values in shares.items()},
        "cut_short": fmean(any(notice.kind in CUT for notice in answer.result.notices) for answer in answers),
        "statuses": dict(Counter(answer.result.status for answer in answers)),
        "rerankers": dict(Counter(answer.result.reranker for answer in answers)),
    }


def stage_times(stages: Iterable[StageTime]) -> dict[str, float]:
    """Return the milliseconds of each step, summed if it ran again after a document was replaced."""
    times: defaultdict[str, float] = defaultdict(float)
    for stage in stages:
        times[stage.stage] += stage.milliseconds
    return dict(times)


def shared(times: Mapping[str, float], whole_ms: float) -> dict[str, float]:
    """Divide a latency into model, store, steps and transport, which sum up to it; own is the last two."""
    # Both searches run concurrently.
    shorter = min(times.get(stage, 0.0) for stage in SEARCHES)
    sums = {"model": 0.0, "store": -shorter, "steps": 0.0}
    for stage, milliseconds in times.items():
        sums[kind_of(stage)] += milliseconds
    own = whole_ms - sums["model"] - sums["store"]
    return {**sums, "transport": own - sums["steps"], "own": own}


def _spread(values: Iterable[float]) -> dict[str, float]:
    values = list(values)
    return {"mean": fmean(values), **percentiles(values)}


def tables(figures: Figures) -> list[Table]:
    """Return tables for each size: latency, deadlines, bursts, shares, steps."""
    return [
        table
        for size in figures["sizes"]
        for table in (_whole(figures, size), _in_time(size), _at_a_time(size), _shares(size), *_stages(size))
    ]


def _whole(figures: Figures, size: Figures) -> Table:
    table = Table(
        title=f"Query latency, ms, with {size['chunks']:,} chunks in the index",
        caption=f"{figures['questions']} queries per row; CPU: ms per query of the answering worker, the store, all of "
        "the stack; cut short: a step was shortened or left out for the deadline",
    )
    for column in ("in flight", "reranking", "p50", "p95", "p99", "questions/s", "CPU", "cut short"):
        table.add_column(column, justify="right")
    for run in size["runs"]:
        table.add_row(
            str(run["at_once"]),
            run["reranking"],
            *(short(run["whole_ms"][share]) for share in SHARES),
            f"{run['questions_per_s']:.1f}",
            _cpu(run["cpu_ms"]),
            f"{100 * run['cut_short']:.0f} %",
        )
    return table


def _cpu(cpu_ms: Mapping[str, float]) -> str:
    return " / ".join(map(short, (cpu_ms["retrieve"], cpu_ms["store"], sum(cpu_ms.values()))))


def _in_time(size: Figures) -> Table:
    table = Table(
        title=f"With {DEADLINE_MS} ms to answer, {size['chunks']:,} chunks in the index",
        caption="late: received late; left late: sent late; candidates: reranked, in answers with hits",
    )
    for column in ("in flight", "late", "left late", "p50", "p99", "candidates", "statuses", "shed"):
        table.add_column(column, justify="right")
    for run in size["hurried"]:
        table.add_row(
            str(run["at_once"]),
            f"{run['late']} of {run['questions']}",
            str(run["left_late"]),
            short(run["whole_ms"]["p50"]),
            short(run["whole_ms"]["p99"]),
            short(run["reranked"]),
            _counts(run["statuses"]),
            _counts(run["shed"]),
        )
    return table


def _at_a_time(size: Figures) -> Table:
    table = Table(
        title=f"{BURST} concurrent queries, {size['chunks']:,} chunks in the index",
        caption="to an idle worker with empty caches, with the deadline set",
    )
    for column in ("burst", "all answered after s", "p50 ms", "p99 ms", "candidates", "statuses", "shed"):
        table.add_column(column, justify="right")
    for place, burst in enumerate(size["bursts"], start=1):
        table.add_row(
            str(place),
            f"{burst['seconds']:.1f}",
            short(burst["whole_ms"]["p50"]),
            short(burst["whole_ms"]["p99"]),
            short(burst["reranked"]),
            _counts(burst["statuses"]),
            _counts(burst["shed"]),
        )
    return table


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counted.items()) or "–"


def _shares(size: Figures) -> Table:
    table = Table(
        title=f"Shares of the latency, p50 ms, with {size['chunks']:,} chunks in the index",
        caption="own: steps (analyse, fuse, diversify, assemble) and "
        "transport (Avro, topics, waiting for those before)",
    )
    columns = ("model", "store", "steps", "transport", "own")
    for column in ("in flight", "reranking", *columns):
        table.add_column(column, justify="right")
    for run in size["runs"]:
        times = (short(run["shares_ms"][column]["p50"]) for column in columns)
        table.add_row(str(run["at_once"]), run["reranking"], *times)
    return table


def _stages(size: Figures) -> list[Table]:
    return [_stage_table(size, reranking) for reranking in RERANKING]


def _stage_table(size: Figures, reranking: str) -> Table:
    runs = [run for run in size["runs"] if run["reranking"] == reranking]
    table = Table(
        title=f"Steps, p50 / p95 / p99 ms, {size['chunks']:,} chunks, reranking {reranking}",
        caption="of the batch in which a query was answered",
    )
    table.add_column("stage")
    table.add_column("whose")
    for run in runs:
        table.add_column(f"{run['at_once']} in flight", justify="right")
    for stage in runs[0]["stages_ms"]:
        spreads = (run["stages_ms"].get(stage) for run in runs)
        table.add_row(stage, kind_of(stage), *("–" if each is None else _three(each) for each in spreads))
    table.add_row("whole", "", *(_three(run["whole_ms"]) for run in runs), style="bold")
    return table


def kind_of(stage: str) -> str:
    """Return the share that a step belongs to."""
    return "model" if stage in MODEL else "store" if stage in STORE else "steps"


def _three(spread: Mapping[str, float]) -> str:
    return " / ".join(short(spread[share]) for share in SHARES)


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw the latency by queries in flight, and the parts of a single query."""
    return [_draw_whole(figures, folder / "query-latency.png"), _draw_stages(figures, folder / "query-stages.png")]


def _draw_whole(figures: Figures, path: Path) -> Path:
    series = {
        f"{size['chunks']:,} chunks, reranking {reranking}, {share}": [
            (run["at_once"], run["whole_ms"][share]) for run in size["runs"] if run["reranking"] == reranking
        ]
        for size in figures["sizes"]
        for reranking in RERANKING
        for share in ("p50", "p95")
    }
    return lines(
        path,
        series,
        title="Query latency (lower is better)",
        x="queries in flight",
        y="latency, ms",
        logarithmic=(True, True),
        dashed=[label for label in series if label.endswith("p95")],
        ticks=AT_ONCE,
    )


def _draw_stages(figures: Figures, path: Path) -> Path:
    series: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for size in figures["sizes"]:
        for run in size["runs"]:
            if run["at_once"] == 1:
                name = f"{size['chunks']:,} chunks,\nreranking {run['reranking']}"
                for part, milliseconds in _parts(run).items():
                    series[part][name] = milliseconds
    return stacked(
        path,
        series,
        title="Parts of the latency of a single query (lower is better)",
        value="mean latency, ms",
        colours=COLOURS,
    )


def _parts(run: Figures) -> dict[str, float]:
    """Divide the mean latency into parts that sum up to it."""
    stages = {stage: spread["mean"] for stage, spread in run["stages_ms"].items()}
    shares = {share: spread["mean"] for share, spread in run["shares_ms"].items()}
    others = sum(mean for stage, mean in stages.items() if stage in STORE and stage not in SEARCHES)
    return {
        "embed (model)": stages["embed"],
        "rerank (model)": stages.get("rerank", 0.0),
        "dense and lexical search (store)": shares["store"] - others,
        "other reads (store)": others,
        "analyse, fuse, diversify, assemble (own)": shares["steps"],
        "topics, Avro, waiting (own)": shares["transport"],
    }
