"""Latency of a query by the way it takes: the topic, HTTP, gRPC, a direct call within the server, and the page.

Both servers run beside one stack; each query is asked on every way in turn, in an order that changes. The share of the
way itself is measured with a query that breaks a rule: all of it is done but the retrieval.
"""

import asyncio
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import httpx
from playwright.async_api import Page
from rich.table import Table

from bench.pipeline.corpus import TENANT
from bench.pipeline.ground import (
    PATIENCE_S,
    Figures,
    Ground,
    Stack,
    ask_once,
    indexed,
    open_filled,
    percentiles,
    questions,
)
from bench.pipeline.plots import short
from freki.infra.local.state import environment_for
from freki.schemas.proto.freki.v1 import freki_pb2
from freki.streams.client import Asker
from freki.streams.wire.connect import open_asker
from tests.chromium import CHROMIUM, open_chromium

TITLE = "APIs: latency by topic, HTTP, gRPC and direct calls"
QUESTIONS, QUICK_QUESTIONS = 200, 20
WARM_UP = 8
PAGE = "page, direct: first hit drawn"
_ASK_AND_DRAW = """(text) => new Promise((resolve) => {
  const drawn = (_, observer) => { observer.disconnect(); requestAnimationFrame(() => setTimeout(resolve)); };
  new MutationObserver(drawn).observe(document.getElementById("heading"), { childList: true });
  document.getElementById("question").value = text;
  document.getElementById("search").requestSubmit();
})"""
"""Asks, and returns after the frame in which the answer is drawn."""
BROKEN = 3.0
"""Value of `alpha` that breaks a rule."""

Way = Callable[[str, float | None], Awaitable[None]]
"""Asks a query with this `alpha`, and returns once it is answered or refused."""


async def measure(ground: Ground) -> Figures:
    """Fill the index to each size in ascending order, and measure."""
    asked = await questions(ground, QUICK_QUESTIONS if ground.quick else QUESTIONS)
    return {"sizes": [await _at_size(ground, size, asked) for size in ground.sizes]}


async def _at_size(ground: Ground, size: int, asked: Sequence[str]) -> Figures:
    async with open_filled(ground, size) as stack, _ways(stack) as ways:
        held = await indexed(stack.settings)
        runs = {}
        with ground.step("queries on each way", 2 * len(asked)) as advance:
            for name, alpha in (("answered", None), ("refused", BROKEN)):
                taken: defaultdict[str, list[float]] = defaultdict(list)
                for turn, text in enumerate(asked):
                    # The page has no field that breaks a rule.
                    names = [way for way in ways if way != PAGE or alpha is None]
                    for way in names[turn % len(names) :] + names[: turn % len(names)]:
                        started = time.perf_counter()
                        await ways[way](text, alpha)
                        if turn >= WARM_UP:
                            taken[way].append((time.perf_counter() - started) * 1000)
                    advance(1)
                runs[name] = {way: percentiles(taken[way], (50, 95)) for way in ways if way in taken}
    return {"chunks": sum(held.values()), "questions": len(asked) - WARM_UP, **runs}


@asynccontextmanager
async def _ways(stack: Stack) -> AsyncIterator[Mapping[str, Way]]:
    """Open a client for each way."""
    async with AsyncExitStack() as opened:
        asker = await opened.enter_async_context(open_asker(stack.settings))
        ways: dict[str, Way] = {"topic": _by_topic(asker)}
        for name, arguments in (("", ()), (", direct", ("--direct",))):
            url, address = await opened.enter_async_context(_served(stack, *arguments))
            client = await opened.enter_async_context(httpx.AsyncClient(base_url=url, timeout=PATIENCE_S))
            channel = await opened.enter_async_context(grpc.aio.insecure_channel(address))
            ways |= {f"HTTP{name}": _by_http(client), f"gRPC{name}": _by_grpc(channel)}
            if name and CHROMIUM is not None:
                page = await (await opened.enter_async_context(open_chromium())).new_page()
                await page.goto(url)
                ways[PAGE] = _by_page(page)
        yield ways


@asynccontextmanager
async def _served(stack: Stack, *arguments: str) -> AsyncIterator[tuple[str, str]]:
    """Run `freki serve`; give its addresses for HTTP and gRPC."""
    ports = {"FREKI_SERVE__PORT": "0", "FREKI_SERVE__GRPC_PORT": "0", "FREKI_TENANT": TENANT}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", "serve", *arguments),
        env={**os.environ, **environment_for(stack.settings, stack.state), "COLUMNS": "200", **ports},
        stderr=asyncio.subprocess.PIPE,
    )
    said, logs = b"", None
    try:
        while (url := re.search(rb"serving at (http://\S+)/ ", said)) is None:
            line = await process.stderr.readline() if process.stderr else b""
            if not line:
                raise RuntimeError(f"freki serve did not start: {said.decode(errors='replace')}")
            said += line
        address = re.search(rb"gRPC at (\S+)", said)
        # Logs follow, and a full pipe would stop the process.
        logs = asyncio.create_task(process.stderr.read()) if process.stderr else None
        yield url[1].decode(), address[1].decode() if address else ""
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        if logs is not None:
            await logs


def _by_topic(asker: Asker) -> Way:
    async def ask(text: str, alpha: float | None) -> None:
        await ask_once(asker, text, alpha=alpha)

    return ask


def _by_page(page: Page) -> Way:
    async def ask(text: str, _: float | None) -> None:
        await page.evaluate(_ASK_AND_DRAW, text)

    return ask


def _by_http(client: httpx.AsyncClient) -> Way:
    async def ask(text: str, alpha: float | None) -> None:
        (await client.post("/v1/queries", json={"text": text, "alpha": alpha})).read()

    return ask


def _by_grpc(channel: grpc.aio.Channel) -> Way:
    method = channel.unary_unary(
        "/freki.v1.Freki/RetrieveContext",
        freki_pb2.RetrieveContextRequest.SerializeToString,
        freki_pb2.ContextResult.FromString,
    )

    async def ask(text: str, alpha: float | None) -> None:
        query = freki_pb2.ContextQuery(text=text, alpha=alpha)
        try:
            await method(freki_pb2.RetrieveContextRequest(query=query))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                raise

    return ask


def tables(figures: Figures) -> list[Table]:
    """Return one table per size."""
    return [_table(size) for size in figures["sizes"]]


def _table(size: Figures) -> Table:
    table = Table(
        title=f"Latency at the client by way, ms, {size['chunks']:,} chunks in the index",
        caption=f"{size['questions']} queries on each way in turn, one at a time; refused: without retrieval",
    )
    for column in ("way", "answered p50", "p95", "refused p50", "p95"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for way, answered in size["answered"].items():
        both = (answered, size["refused"].get(way))
        table.add_row(
            way, *("" if taken is None else short(taken[share]) for taken in both for share in ("p50", "p95"))
        )
    return table


def draw(figures: Figures, folder: Path) -> list[Path]:  # noqa: ARG001 - of all measurements
    """Draw nothing: the tables suffice."""
    return []
