"""Real processes that crash, hang and eat memory."""

import asyncio
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from freki.infra.processes.child import MAX_CALLS, Children
from freki.infra.settings import ParsingSettings
from freki.schemas.errors import Rejected, Unavailable
from tests.contract import works

QUICK = ParsingSettings(timeout_s=0.5)


def children(work: Callable[..., Any], settings: ParsingSettings | None = None) -> Children[..., Any]:
    return Children(work, settings or ParsingSettings())


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def attempts(folder: Path) -> list[int]:
    """Name the processes that left a trace."""
    return [int(trace.name.rpartition("-")[2]) for trace in folder.iterdir()]


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - another process makes it true
        await asyncio.sleep(0.01)


async def test_a_call_gives_what_the_function_gives() -> None:
    async with children(works.length) as call:
        assert await call("a", b"x" * 5_000_000) == 5_000_000
        assert await call("b", content=b"") == 0


async def test_what_the_function_raises_comes_through_and_tells_where_it_was_raised() -> None:
    async with children(works.fail) as call:
        with pytest.raises(ValueError, match=r"\Aa\.pdf is bad") as caught:
            await call("a.pdf")

    assert f"{works.__file__}:" in "\n".join(caught.value.__notes__)


async def test_the_same_process_works_on() -> None:
    async with children(works.pid) as call:
        found = {await call(name) for name in "abc"}

    assert len(found) == 1
    assert os.getpid() not in found


async def test_a_fresh_process_takes_over_after_many_calls() -> None:
    async with children(works.pid) as call:
        found = [await call("a") for _ in range(MAX_CALLS + 1)]

    assert len(set(found[:MAX_CALLS])) == 1
    assert found[MAX_CALLS] not in found[:MAX_CALLS]


async def test_no_process_is_left_behind() -> None:
    async with children(works.pid) as call:
        process = await call("a")

    assert not is_there(process)


async def test_what_ends_two_processes_is_rejected_by_name_and_signal(tmp_path: Path) -> None:
    async with children(works.abort) as call:
        with pytest.raises(
            Rejected, match=r"a\.pdf: ended the parser \(SIGABRT\): damaged, .*; open it and save or print it again\Z"
        ):
            await call("a.pdf", tmp_path)

    assert len(attempts(tmp_path)) == 2


async def test_what_was_rejected_is_rejected_again_without_being_tried(tmp_path: Path) -> None:
    async with children(works.abort) as call:
        for _ in range(3):
            with pytest.raises(Rejected, match=r"a\.pdf: ended the parser"):
                await call("a.pdf", tmp_path)

    assert len(attempts(tmp_path)) == 2


async def test_a_process_that_somebody_else_ended_costs_the_document_nothing(tmp_path: Path) -> None:
    async with children(works.abort_once) as call:
        assert await call("a.pdf", tmp_path) == 1


async def test_a_call_ends_although_its_process_is_told_to_stop_too() -> None:
    async with children(works.go_on) as call:
        assert await call("a.pdf") == "a.pdf"


async def test_the_next_document_is_parsed_after_one_that_crashed(tmp_path: Path) -> None:
    async with children(works.abort_once) as call:
        await call("a.pdf", tmp_path)

        assert await call("b.pdf", tmp_path) == 1


async def test_what_takes_too_long_is_rejected_and_names_the_setting(tmp_path: Path) -> None:
    async with children(works.loop, QUICK) as call:
        with pytest.raises(Rejected, match=r"a\.pdf: took more than 0\.5 s .* FREKI_PARSING__TIMEOUT_S\Z"):
            await call("a.pdf", tmp_path)


async def test_who_stops_waiting_leaves_no_process_that_works_on(tmp_path: Path) -> None:
    async with children(works.loop) as call:
        waiting = asyncio.create_task(call("a", tmp_path))
        await until(lambda: bool(attempts(tmp_path)))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    (process,) = attempts(tmp_path)
    await until(lambda: not is_there(process))


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS does not hold the limit")
async def test_what_takes_too_much_memory_is_rejected_and_names_the_setting() -> None:
    async with children(works.eat) as call:
        with pytest.raises(Rejected, match=r"a\.pdf: took more than 1024 MB .* FREKI_PARSING__MAX_MEMORY_MB\Z"):
            await call("a.pdf")


async def test_what_nests_without_end_is_an_error_like_any_other() -> None:
    async with children(works.nest) as call:
        with pytest.raises(RecursionError):
            await call("a.eml")


async def test_a_process_writes_no_file_and_no_core(tmp_path: Path) -> None:
    async with children(works.write) as call:
        with pytest.raises(OSError, match="File too large"):
            await call("a", tmp_path / "a")
    async with children(works.core_size) as size:
        assert await size("a") == 0


async def test_as_many_calls_as_processes_are_at_work_together(tmp_path: Path) -> None:
    async with children(works.meet, ParsingSettings(processes=2)) as call:
        met = await asyncio.gather(call("a", "b", tmp_path), call("b", "a", tmp_path))

    assert tuple(met) == ("a", "b")


async def test_a_process_that_cannot_start_is_the_worlds_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "vanishing_work.py"
    source.write_text("def work(name: str) -> str:\n    return name\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    work = import_module("vanishing_work").work
    source.unlink()

    async with children(work) as call:
        with pytest.raises(Unavailable, match="exit status 1"):
            await call("a.pdf")
