"""Freshness from outside: a producer publishes a change and a client queries until an answer shows it.

The measurement uses no timestamp of Freki. The claim of the receipt, `searchable_at`, is compared with the observation,
and all answers that contradict a claim are counted.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import count, cycle, islice
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from rich.table import Table

from bench.pipeline.corpus import TENANT, WORDS, Corpus, document, seeded, text_of
from bench.pipeline.edits import edits, histories
from bench.pipeline.ground import PATIENCE_S, Figures, Ground, open_filled, percentiles, publish, questions
from bench.pipeline.plots import figure
from freki.infra.settings import Settings
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    IndexOutcome,
    Operation,
    QueryId,
    RerankerChoice,
    TenantId,
)
from freki.schemas.names import record
from freki.streams.client import Asker, Publisher, Receipts
from freki.streams.wire.connect import open_asker, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock

TITLE = "Freshness: from a change to the answer that shows it"

PROBES, QUICK_PROBES = 100, 10
"""Number of changed documents in each scenario."""
CHANGES_PER_DELETION = 2
LONGEST_SCENARIO_S = 420.0
"""Maximum duration of a scenario in seconds; slow probes end with fewer of them."""
SETTLED_AFTER_S = 3.0
"""Seconds from the start of the background load to the first probe."""
FRESHNESS = TenantId("freshness")
"""Tenant of the edited documents; those of the corpus lie beside them in the index, unchanged."""
EDITED, PROBED = 60, 8
"""Number of edited documents, and of those edited by probes in rotation; storms edit the others."""
LARGEST = 100_000
"""Length of the largest edited document, in characters: one of the largest laws is a storm by itself."""
USUAL_CHARACTERS = 16_000
"""Target length of probed documents in characters: the median of the recorded laws."""
BURST, QUICK_BURST = 150, 30
"""Number of edits published at once to measure the capacity of the stack."""
BEHIND_S = 10.0
"""Most edits that wait in a storm, as seconds of its rate."""
BELOW, AT = 0.8, 1.0
"""Rates of the storms, as shares of the capacity of the stack."""
IN_FLIGHT = 4
AFTER_RECEIPT = 3
"""Number of queries after the receipt's time, whose answers must all show the change."""
QUESTIONS = 64
LETTERS = "abcdefghijklmnoprstuvwz"


@record
class Answer:
    """Observation by one query."""

    asked_at: int
    """Time of the query by the wall clock, in ms, as in receipts."""
    arrived_ms: float
    """Arrival of the answer, in ms after the event."""
    shows: bool
    """Whether the answer shows the change; for a deletion, whether it no longer quotes the document."""


@record
class Probe:
    """Change, observed from the event until some queries after its receipt."""

    answers: tuple[Answer, ...]
    claimed_at: int
    """`searchable_at` of the receipt, by the wall clock, in ms."""
    claimed_ms: int
    """`searchable_at - occurred_at`."""

    @property
    def seen_ms(self) -> float | None:
        """Return the arrival of the first answer that shows the change, in ms after the event; None if none does."""
        return next((answer.arrived_ms for answer in self.answers if answer.shows), None)

    @property
    def resolution_ms(self) -> float:
        """Return the ms from the previous answer or the event to the first that shows the change: the uncertainty."""
        arrived = [0.0]
        for answer in self.answers:
            arrived.append(answer.arrived_ms)
            if answer.shows:
                break
        return arrived[-1] - arrived[-2]

    @property
    def broken_promises(self) -> int:
        """Return the number of answers to queries after the receipt's time that do not show the change."""
        return sum(answer.asked_at > self.claimed_at and not answer.shows for answer in self.answers)

    @property
    def reverted(self) -> int:
        """Return the number of answers that do not show the change although an earlier one did."""
        shown = [answer.shows for answer in self.answers]
        return shown[shown.index(True) :].count(False) if True in shown else 0


class Prober:
    """Publisher of changes with a new unique word, and client that queries that word."""

    def __init__(
        self,
        publisher: Publisher,
        receipts: Receipts,
        asker: Asker,
        *,
        documents: Sequence[DocumentChange],
        words: Iterator[str],
        version: int,
    ) -> None:
        self._publisher = publisher
        self._receipts = receipts
        self._asker = asker
        self._documents = cycle(documents)
        self._words = words
        self._versions = count(version)

    async def edit(self) -> Probe:
        """Insert a unique word into a document; query until an answer quotes the version that has it."""
        word, original = next(self._words), next(self._documents)
        change = replace(original, version=next(self._versions), content=marked(text_of(original), word))

        def quotes(result: ContextResult) -> bool:
            return any(
                hit.version == change.version and word in "\n".join([*hit.heading_path, hit.text])
                for hit in result.hits
            )

        return await self._probe(change, word, quotes)

    async def delete(self) -> Probe:
        """Delete a document that answers quote; query until none does."""
        word, version = next(self._words), next(self._versions)
        doomed = document(FRESHNESS, f"doomed/{word}", f"Die Kennung {word} steht nur in diesem Text.", version=version)
        self._receipts.expect(doomed)
        await self._publisher.publish(doomed)
        await self._receipts.next(patience_s=PATIENCE_S)
        change = _deletion(doomed, version=next(self._versions))

        def quotes(result: ContextResult) -> bool:
            return any(hit.document_id == change.document_id for hit in result.hits)

        if not quotes(await self._ask(word)):
            raise RuntimeError(f"no answer quotes {change.document_id!r}, so that its deletion cannot be seen")
        return await self._probe(change, word, lambda result: not quotes(result))

    async def _probe(self, change: DocumentChange, word: str, shows: Callable[[ContextResult], bool]) -> Probe:
        change = replace(change, occurred_at=wall_clock())
        started = time.perf_counter()
        self._receipts.expect(change)
        await self._publisher.publish(change)
        receipt = asyncio.create_task(self._receipts.next(patience_s=PATIENCE_S))
        answers: list[Answer] = []
        while not receipt.done() or _asked_after(answers, _claim(receipt.result())) < AFTER_RECEIPT:
            asked_at = wall_clock()
            result = await self._ask(word)
            elapsed_ms = (time.perf_counter() - started) * 1000
            answers.append(Answer(asked_at=asked_at, arrived_ms=elapsed_ms, shows=shows(result)))
        claimed_at = _claim(receipt.result())
        return Probe(answers=tuple(answers), claimed_at=claimed_at, claimed_ms=claimed_at - change.occurred_at)

    async def _ask(self, word: str) -> ContextResult:
        """Run the cheapest possible query: its latency counts towards the time until the change is seen."""
        query = ContextQuery(
            query_id=QueryId(str(uuid.uuid4())),
            tenant=FRESHNESS,
            text=word,
            asked_at=wall_clock(),
            top_k=3,
            reranker=RerankerChoice.NONE,
            # Under many queries, no step may be skipped for lack of time.
            deadline_ms=int(PATIENCE_S * 1000),
            parents=False,
            neighbours=0,
        )
        return await self._asker.ask(query, patience_s=PATIENCE_S)


def _claim(receipt: IndexOutcome) -> int:
    if receipt.searchable_at is None:
        raise RuntimeError(f"{receipt.document_id!r} became {receipt.status}: {receipt.reason}")
    return receipt.searchable_at


def _asked_after(answers: Sequence[Answer], time_ms: int) -> int:
    return sum(answer.asked_at > time_ms for answer in answers)


def markers(random: Random) -> Iterator[str]:
    """Yield unique words that exist in no language."""
    while True:
        yield "q" + "".join(random.choice(LETTERS) for _ in range(11)) + "q"


def marked(text: str, word: str) -> str:
    """Insert a word in the middle of the text. Raises ValueError if the text has no word."""
    places = [found.start() for found in WORDS.finditer(text)]
    if not places:
        raise ValueError("the text has no word")
    middle = places[len(places) // 2]
    return f"{text[:middle]}{word} {text[middle:]}"


@dataclass(slots=True)
class Storm:
    """Edits in the background."""

    sent: int = 0
    over: bool = False
    outcomes: list[IndexOutcome] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by each receipt."""

    @property
    def backlog(self) -> int:
        """Return the number of edits without a receipt."""
        return self.sent - len(self.outcomes)


@asynccontextmanager
async def storming(settings: Settings, changes: Iterator[DocumentChange], *, per_s: float) -> AsyncIterator[Storm]:
    """Publish at a fixed rate, independent of receipts; on exit wait for all receipts.

    Above what the stack sustains, edits are held back while `BEHIND_S` seconds of them wait: the figures then are those
    of an overloaded stack, and the measurement ends.
    """
    storm = Storm()
    async with open_receipts(settings) as receipts, open_publisher(settings) as publisher:

        async def send() -> None:
            started = time.perf_counter()
            for number, change in enumerate(changes):
                await asyncio.sleep(max(0.0, started + number / per_s - time.perf_counter()))
                while storm.backlog > BEHIND_S * per_s:
                    storm.arrived.clear()
                    await storm.arrived.wait()
                now = replace(change, occurred_at=wall_clock())
                receipts.expect(now)
                await publisher.publish(now)
                storm.sent += 1

        async def collect() -> None:
            while not storm.over or storm.backlog > 0:
                storm.outcomes.append(await receipts.next(patience_s=PATIENCE_S))
                storm.arrived.set()

        sending, collecting = asyncio.create_task(send()), asyncio.create_task(collect())
        try:
            yield storm
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            storm.over = True
            if storm.backlog <= 0:
                collecting.cancel()
            with suppress(asyncio.CancelledError):
                await collecting


@asynccontextmanager
async def asking(settings: Settings, texts: Sequence[str], *, in_flight: int) -> AsyncIterator[list[float]]:
    """Keep this many default queries in flight; yield a list that grows by their latencies in ms."""
    times: list[float] = []
    async with open_asker(settings) as asker:
        rest = cycle(texts)

        async def one_after_the_other() -> None:
            while True:
                started = time.perf_counter()
                query_id = QueryId(str(uuid.uuid4()))
                query = ContextQuery(query_id=query_id, tenant=TENANT, text=next(rest), asked_at=wall_clock())
                await asker.ask(query, patience_s=PATIENCE_S)
                times.append((time.perf_counter() - started) * 1000)

        tasks = [asyncio.create_task(one_after_the_other()) for _ in range(in_flight)]
        try:
            yield times
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def measure(ground: Ground) -> Figures:
    """Probe a stack when idle, under storms of edits, and under constant queries."""
    edited = _documents(ground.corpus)
    probed, stormed = edited[:PROBED], edited[PROBED:]
    random, version = seeded(ground.seed, "freshness"), wall_clock()
    async with open_filled(ground, ground.sizes[0]) as stack, AsyncExitStack() as opened:
        settings = stack.settings
        await publish(settings, (replace(change, version=version) for change in edited))
        opened.push_async_callback(_delete, settings, edited)
        prober = Prober(
            await opened.enter_async_context(open_publisher(settings)),
            await opened.enter_async_context(open_receipts(settings)),
            await opened.enter_async_context(open_asker(settings)),
            documents=probed,
            words=markers(random),
            version=version + 1,
        )
        for _ in probed:
            await prober.edit()
        changes = edits(stormed, histories(ground.corpus), random, version=version + 1)
        per_s = await _capacity(ground, settings, prober, changes)
        found = [await _scenario(ground, "idle", prober, nullcontext())]
        for share in (BELOW, AT):
            storm = storming(settings, changes, per_s=share * per_s)
            found.append(await _scenario(ground, f"storm, {share:.0%}", prober, storm, offered_per_s=share * per_s))
        load = asking(settings, await questions(ground, QUESTIONS), in_flight=IN_FLIGHT)
        found.append(await _scenario(ground, f"{IN_FLIGHT} questions", prober, load))
    return {
        "chunks_at_least": ground.sizes[0],
        "documents_in_storms": len(stormed),
        "recorded": bool(ground.corpus.streams),
        "edits_per_s": per_s,
        "scenarios": found,
    }


def _documents(corpus: Corpus) -> list[DocumentChange]:
    """Choose documents of the corpus, those closest to the usual length first."""
    small = (change for change in corpus.documents(FRESHNESS) if len(text_of(change)) <= LARGEST)
    first = list(islice(small, EDITED))
    return sorted(first, key=lambda change: abs(len(text_of(change)) - USUAL_CHARACTERS))


async def _delete(settings: Settings, changes: Sequence[DocumentChange]) -> None:
    """Delete the documents of the measurement."""
    now = wall_clock()
    await publish(settings, (_deletion(change, version=now) for change in changes))


def _deletion(change: DocumentChange, *, version: int) -> DocumentChange:
    return replace(change, operation=Operation.DELETE, version=version, content=None, principals=())


async def _capacity(ground: Ground, settings: Settings, prober: Prober, changes: Iterator[DocumentChange]) -> float:
    """Return the edits per second that the stack processes while it is probed as in the scenarios."""
    number = QUICK_BURST if ground.quick else BURST
    burst = [replace(change, occurred_at=wall_clock()) for change in islice(changes, number)]
    over = asyncio.Event()

    async def probe() -> None:
        while not over.is_set():
            await prober.edit()

    with ground.step("edits per second", number) as advance:
        probing = asyncio.create_task(probe())
        published = await publish(settings, burst, advance=advance)
        over.set()
        await probing
    return number / published.seconds


async def _scenario(
    ground: Ground,
    name: str,
    prober: Prober,
    load: AbstractAsyncContextManager[Storm | list[float] | None],
    **about: float,
) -> Figures:
    wanted = QUICK_PROBES if ground.quick else PROBES
    edited: list[Probe] = []
    deleted: list[Probe] = []
    async with load as running:
        await asyncio.sleep(SETTLED_AFTER_S if running is not None else 0)
        started = time.perf_counter()
        with ground.step(name, wanted) as advance:
            while len(edited) < wanted and time.perf_counter() - started < LONGEST_SCENARIO_S:
                edited.append(await prober.edit())
                if len(edited) % CHANGES_PER_DELETION == 0:
                    deleted.append(await prober.delete())
                advance(1)
        seconds = time.perf_counter() - started
        background = _background(running, seconds + SETTLED_AFTER_S)
    return {
        "name": name,
        "seconds": seconds,
        "cut_short": len(edited) < wanted,
        "edits": summary(edited),
        "deletions": summary(deleted),
        "background": {**about, **background},
    }


def _background(running: Storm | list[float] | None, seconds: float) -> Figures:
    """Return figures of the background load."""
    if isinstance(running, Storm):
        done = running.outcomes
        return {
            "done_per_s": len(done) / seconds,
            "backlog_at_end": running.backlog,
            "chunks_per_document": fmean(outcome.chunks for outcome in done),
            "embedded_per_edit": fmean(outcome.embedded for outcome in done),
        }
    if running is not None:
        return {"questions_per_s": len(running) / seconds, "question_ms": percentiles(running)}
    return {}


def summary(probes: Sequence[Probe]) -> Figures:
    """Return the figures of probes of one kind, at least one of which was seen."""
    seen = [(probe.seen_ms, probe) for probe in probes if probe.seen_ms is not None]
    late = [seen_ms - probe.claimed_ms for seen_ms, probe in seen]
    return {
        "probes": len(probes),
        "never_seen": len(probes) - len(seen),
        "seen_ms": percentiles(seen_ms for seen_ms, _ in seen),
        "claimed_ms": percentiles(probe.claimed_ms for probe in probes),
        "seen_minus_claimed_ms": {"least": min(late), **percentiles(late), "most": max(late)},
        "resolution_ms": percentiles(probe.resolution_ms for _, probe in seen),
        "answers": sum(len(probe.answers) for probe in probes),
        "broken_promises": sum(probe.broken_promises for probe in probes),
        "reverted": sum(probe.reverted for probe in probes),
        "each_seen_and_claimed_ms": [[seen_ms, probe.claimed_ms] for seen_ms, probe in seen],
    }


def tables(figures: Figures) -> list[Table]:
    """Return tables of the times until changes were seen, the claims of receipts, and the background load."""
    return [_seen(figures), _claims(figures), _meanwhile(figures)]


def _seen(figures: Figures) -> Table:
    table = _table(
        "From the event to the answer that shows it, ms",
        ("while", "change", "probes", "p50", "p95", "p99", "resolution p50"),
        f"{figures['chunks_at_least']:,} chunks in the index. A change became visible between the answer that shows it "
        "and the one before: that is the resolution, about one query; times are not corrected for it.",
    )
    for name, kind, found in _kinds(figures):
        times = [f"{found['seen_ms'][share]:.0f}" for share in ("p50", "p95", "p99")]
        table.add_row(name, kind, str(found["probes"]), *times, f"{found['resolution_ms']['p50']:.0f}")
    return table


def _claims(figures: Figures) -> Table:
    table = _table(
        "Claim of the receipt (searchable_at - occurred_at), and observation",
        ("while", "change", "claimed p50", "seen - claimed: least", "p50", "most", "answers", "broken", "reverted"),
        "Broken: answers to queries after the receipt's time that do not show the change. Reverted: answers "
        "that do not show it although an earlier one did. Both must be 0.",
    )
    for name, kind, found in _kinds(figures):
        late = found["seen_minus_claimed_ms"]
        table.add_row(
            *(name, kind, f"{found['claimed_ms']['p50']:.0f}"),
            *(f"{late[which]:.0f}" for which in ("least", "p50", "most")),
            *(str(found[which]) for which in ("answers", "broken_promises", "reverted")),
        )
    return table


def _meanwhile(figures: Figures) -> Table:
    table = _table(
        "Background load",
        ("while", "edits/s offered", "edits/s done", "waiting at the end", "embedded/edit", "queries/s", "query p50"),
        f"Capacity, measured by a burst with one probe: {figures['edits_per_s']:.1f} edits/s.",
    )
    for scenario in figures["scenarios"]:
        background = scenario["background"]
        times = background.get("question_ms")
        table.add_row(
            scenario["name"] + (" (cut short)" if scenario["cut_short"] else ""),
            *(
                f"{background[key]:.1f}" if key in background else "–"
                for key in ("offered_per_s", "done_per_s", "backlog_at_end", "embedded_per_edit", "questions_per_s")
            ),
            f"{times['p50']:.0f} ms" if times else "–",
        )
    return table


def _kinds(figures: Figures) -> Iterator[tuple[str, str, Figures]]:
    for scenario in figures["scenarios"]:
        yield scenario["name"], "edit", scenario["edits"]
        yield scenario["name"], "deletion", scenario["deletions"]


def _table(title: str, columns: Sequence[str], caption: str) -> Table:
    table = Table(title=title, caption=caption)
    for column in columns:
        table.add_column(column, justify="left" if column in {"while", "change"} else "right")
    return table


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw the distribution of the times until edits were seen, and these times against the claims."""
    pairs = {each["name"]: each["edits"]["each_seen_and_claimed_ms"] for each in figures["scenarios"]}
    seen, claimed = folder / "freshness.png", folder / "freshness-claims.png"
    title = "Edits that an answer shows: further left is fresher"
    with figure(seen, title=title, x="ms from the event to the answer", y="share of the edits") as axes:
        for name, times in pairs.items():
            ordered = sorted(seen_ms for seen_ms, _ in times)
            axes.step(ordered, [(place + 1) / len(ordered) for place in range(len(ordered))], where="post", label=name)
        axes.set(xscale="log", ylim=(0, 1.02))
        _plain_ticks(axes.xaxis)
    title = "Below the line, an edit would have been seen before it was claimed"
    with figure(claimed, title=title, x="ms that the receipt claims", y="ms until an answer shows it") as axes:
        for name, times in pairs.items():
            axes.plot([claim for _, claim in times], [seen_ms for seen_ms, _ in times], ".", label=name)
        axes.axline((100, 100), (1000, 1000), color="grey", linewidth=0.8)
        axes.set(xscale="log", yscale="log")
        _plain_ticks(axes.xaxis)
        _plain_ticks(axes.yaxis)
    return [seen, claimed]


def _plain_ticks(axis: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter  # with the extra `bench` only

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:,.0f}")
    axis.set_minor_formatter(NullFormatter())
