"""Cost of tokens, the audit log and encryption: ingest and queries with each, all and none of them, in one run."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rich.table import Table

from bench.pipeline.corpus import TENANT, WARM_UP, some
from bench.pipeline.ground import Advance, Figures, Ground, Stack, ask, percentiles, publish, questions
from bench.pipeline.plots import bars, short
from bench.pipeline.processes import cpu_spent
from freki.infra.keys import make_keys
from freki.infra.settings import Settings
from freki.infra.signing import make_key
from freki.schemas import DocumentChange
from freki.schemas.names import EVERYONE
from tests.issuer import AUDIENCE, ISSUER, Issuer, key_server

TITLE = "Protection: what tokens, the audit log and encryption cost"
CHARACTERS, QUICK_CHARACTERS = 300_000, 20_000
QUESTIONS, QUICK_QUESTIONS = 200, 32
ROUNDS, QUICK_ROUNDS = 3, 1
WARM_UP_QUESTIONS = 16
OFF = "none"
_TOKENS, _AUDIT, _ENCRYPTION = "tokens", "audit log", "encryption"
MODES: Mapping[str, frozenset[str]] = {
    OFF: frozenset(),
    _TOKENS: frozenset({_TOKENS}),
    _AUDIT: frozenset({_AUDIT}),
    _ENCRYPTION: frozenset({_ENCRYPTION}),
    "all": frozenset({_TOKENS, _AUDIT, _ENCRYPTION}),
}
_DAY_S = 86_400
_TOKEN = "token"  # noqa: S105 - the name of its file


async def measure(ground: Ground) -> Figures:
    """Index and ask the same on an empty stack for each mode; rounds take the modes in alternating order."""
    documents = [
        replace(change, principals=(EVERYONE,))
        for change in some(ground.corpus.documents(), characters=QUICK_CHARACTERS if ground.quick else CHARACTERS)
    ]
    asked = await questions(ground, QUICK_QUESTIONS if ground.quick else QUESTIONS, documents)
    rounds = QUICK_ROUNDS if ground.quick else ROUNDS
    runs: dict[str, list[Figures]] = {mode: [] for mode in MODES}
    with (
        TemporaryDirectory(prefix="freki-bench-keys-") as keys,
        ground.step("stacks with and without protection", rounds * len(MODES)) as advance,
    ):
        for number in range(rounds):
            for mode in MODES if number % 2 == 0 else reversed(list(MODES)):
                folder = Path(keys) / f"{mode}-{number}"
                runs[mode].append(await _run(ground, MODES[mode], folder, documents, asked))
                advance(1)
    return {"documents": len(documents), "questions": len(asked), "rounds": rounds, "runs": runs}


async def _run(
    ground: Ground, parts: frozenset[str], folder: Path, documents: Sequence[DocumentChange], asked: Sequence[str]
) -> Figures:
    with _protected(parts, folder) as environment:
        async with ground.open_stack(environment=environment) as stack:
            return await _measured(ground, stack, folder / _TOKEN, documents, asked)


@contextmanager
def _protected(parts: frozenset[str], folder: Path) -> Iterator[Mapping[str, str]]:
    """Yield the settings of these parts, with their keys and a token in a new folder."""
    folder.mkdir()
    issuer, environment = Issuer(), dict[str, str]()
    token = issuer.token(tenant=TENANT, exp=int(time.time()) + _DAY_S)
    (folder / _TOKEN).write_text(token, encoding="utf-8")
    if _AUDIT in parts:
        make_key(folder / "audit.key")
        environment |= {
            "FREKI_AUDIT__ENABLED": "true",
            "FREKI_AUDIT__KEY_FILE": str(folder / "audit.key"),
            "FREKI_AUDIT__DIRECTORY": str(folder / "audit"),
        }
    if _ENCRYPTION in parts:
        make_keys(folder / "freki.keys")
        environment |= {"FREKI_ENCRYPTION__KEYS": "local", "FREKI_ENCRYPTION__KEY_FILE": str(folder / "freki.keys")}
    with key_server(issuer) as served:
        if _TOKENS in parts:
            environment |= {
                "FREKI_AUTH__JWKS": served.url,
                "FREKI_AUTH__ISSUER": ISSUER,
                "FREKI_AUTH__AUDIENCE": AUDIENCE,
            }
        yield environment


async def _measured(
    ground: Ground, stack: Stack, token: Path, documents: Sequence[DocumentChange], asked: Sequence[str]
) -> Figures:
    auth = stack.settings.auth.model_copy(update={"token_file": token})
    settings = stack.settings.model_copy(update={"auth": auth})
    await publish(settings, [replace(documents[0], tenant=WARM_UP)])
    with ground.step("documents", len(documents)) as advance, cpu_spent(stack.pids) as cpu_s:
        published = await publish(settings, documents, advance=advance)
    await ask(settings, asked[:WARM_UP_QUESTIONS], at_once=1)
    with ground.step("queries", 2 * len(asked)) as advance:
        alone = await _latency(settings, asked, 1, advance)
        together = await _latency(settings, asked, 4, advance)
    return {
        "chunks": published.chunks,
        "chunks_per_s": published.chunks / published.seconds,
        "cpu_ms_per_chunk": 1000 * sum(cpu_s.values()) / published.chunks,
        "alone_ms": alone,
        "together_ms": together,
    }


async def _latency(settings: Settings, asked: Sequence[str], at_once: int, advance: Advance) -> Figures:
    answers = await ask(settings, asked, at_once=at_once, advance=advance)
    if empty := sum(not answer.result.hits for answer in answers):
        raise RuntimeError(f"{empty} of {len(answers)} queries found nothing; their latency says nothing")
    return percentiles((answer.milliseconds for answer in answers), (50, 95))


def tables(figures: Figures) -> list[Table]:
    """Return a row for each mode, with ratios to none of them."""
    runs = figures["runs"]
    table = Table(
        title="Ingest and queries with tokens, the audit log and encryption",
        caption=f"{figures['documents']} documents, {runs[OFF][0]['chunks']:,} chunks, {figures['questions']} queries, "
        f"reranked; median of {figures['rounds']} rounds; ratios to {OFF} in brackets",
    )
    table.add_column("with")
    for column in ("chunks/s", "CPU ms per chunk", "query, p50 ms", "p95 ms", "4 in flight, p50 ms", "p95 ms"):
        table.add_column(column, justify="right")
    for mode in runs:
        table.add_row(mode, *(_compared(runs, mode, path) for path in _COLUMNS))
    return [table]


_COLUMNS = (
    ("chunks_per_s",),
    ("cpu_ms_per_chunk",),
    ("alone_ms", "p50"),
    ("alone_ms", "p95"),
    ("together_ms", "p50"),
    ("together_ms", "p95"),
)


def _compared(runs: Mapping[str, Sequence[Figures]], mode: str, path: Sequence[str]) -> str:
    value, base = (median(_at(run, path) for run in runs[each]) for each in (mode, OFF))
    return short(value) if mode == OFF else f"{short(value)} ({value / base:.2f})"


def _at(run: Figures, path: Sequence[str]) -> float:
    value = run
    for name in path:
        value = value[name]
    return float(value)  # type: ignore[arg-type] # a leaf


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Draw a bar per mode."""
    latency = {mode: median(run["alone_ms"]["p50"] for run in runs) for mode, runs in figures["runs"].items()}
    return [
        bars(
            folder / "protection.png",
            {"queries": latency},
            title="Latency of queries with tokens and the audit log (lower is better)",
            value="p50, ms",
        )
    ]
