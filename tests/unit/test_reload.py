"""Settings that change while a process runs: all is taken over, or nothing, and the reason is told."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from freki.infra.settings import Settings, TelemetrySettings
from freki.infra.settings.read import read_settings
from freki.infra.settings.reload import differences, leaves, reloads_of
from freki.infra.telemetry.metrics import metering
from freki.infra.telemetry.traces import set_trace_share, tracing
from freki.schemas.errors import Misconfigured, Unavailable
from freki.streams.app import STAGES
from freki.streams.observe.meters import Meters
from freki.streams.wire import reload
from freki.streams.wire.reload import Reloader, SettingsSource, TakeOver
from freki.streams.worker import sections_of

pytestmark = pytest.mark.usefixtures("folder")

SECTIONS = sections_of(["retrieve"])


def write(folder: Path, text: str) -> None:
    """Replace the file as editors and orchestrators do."""
    new = folder / "new.toml"
    new.write_text(text, encoding="utf-8")
    os.replace(new, folder / "freki.toml")  # noqa: PTH105 - the same


def reloader(folder: Path, *, meters: Meters | None = None) -> tuple[Reloader, list[int]]:
    """Make a reloader, and the list of all values of `top_k` that a part took over."""
    first = read_settings()
    made = Reloader(
        SettingsSource(folder / "freki.toml", read_settings, first, SECTIONS), first, meters=meters or Meters()
    )
    taken: list[int] = []

    def prepare(settings: Settings) -> TakeOver:
        return lambda: taken.append(settings.retrieval.top_k)

    made.reloadable.add(prepare)
    return made, taken


def test_each_difference_is_named_once_and_says_whether_it_needs_a_restart(folder: Path) -> None:
    before = read_settings()
    write(folder, "[retrieval]\ntop_k = 3\n[kafka]\npartitions = 9\n[crawl]\ndelay_s = 2\n")

    found = differences(before, read_settings())

    assert found.reloading == ("FREKI_RETRIEVAL__TOP_K",)
    assert found.restarting == ("FREKI_KAFKA__PARTITIONS", "FREKI_CRAWL__DELAY_S")
    assert differences(before, read_settings(), sections=SECTIONS).restarting == ("FREKI_KAFKA__PARTITIONS",)


def test_rules_of_retention_ask_no_other_worker_than_that_of_erasures_to_be_restarted(folder: Path) -> None:
    before = read_settings()
    write(folder, '[[retention.rules]]\nname = "old"\nafter_days = 30\n')
    after = read_settings()

    for name in STAGES:
        asked = differences(before, after, sections=sections_of([name])).restarting
        assert bool(asked) == (name == "erase"), name


def test_a_cache_changes_its_size_but_is_not_turned_on_or_off() -> None:
    off, small, large = (
        Settings().model_copy(update={"retrieval": Settings().retrieval.model_copy(update={"cache_mb": size})})
        for size in (0, 8, 16)
    )

    assert differences(small, large).reloading == ("FREKI_RETRIEVAL__CACHE_MB",)
    assert differences(off, small).restarting == differences(small, off).restarting == ("FREKI_RETRIEVAL__CACHE_MB",)


def test_no_secret_and_no_server_is_taken_over() -> None:
    marked = {leaf.variable for leaf in leaves(Settings()) if reloads_of(leaf.field)}

    assert {name.split("__")[0] for name in marked} == {"FREKI_RETRIEVAL", "FREKI_TELEMETRY", "FREKI_SERVE"}
    assert not [
        name
        for name in marked
        if "_FILE" in name.replace("PROFILE", "") or "TOKEN_" in name or name.endswith(("HOST", "PORT", "URL"))
    ]


async def test_what_changed_is_taken_over_once_it_is_recorded(folder: Path) -> None:
    made, taken = reloader(folder)
    recorded: list[tuple[list[str], list[int]]] = []

    async def record(names: object) -> None:
        recorded.append((list(names), list(taken)))  # type: ignore[call-overload]

    made.record = record
    write(folder, "[retrieval]\ntop_k = 3\nmmr_lambda = 0.9\n")

    changed = await made.reload()

    assert set(changed) == {"FREKI_RETRIEVAL__TOP_K", "FREKI_RETRIEVAL__MMR_LAMBDA"}
    assert [(set(names), before) for names, before in recorded] == [(set(changed), [])]
    assert taken == [3]
    assert made.settings.retrieval.mmr_lambda == 0.9
    assert await made.reload() == ()
    assert taken == [3]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[retrieval]\ntop_k = 0\n", "FREKI_RETRIEVAL__TOP_K"),
        (
            "[retrieval]\ntop_k = 3\n[kafka]\npartitions = 9\n",
            "FREKI_KAFKA__PARTITIONS changed and is read at the start",
        ),
        ("[retrieval\n", "freki.toml: "),
        ("[retrieval]\ntop_q = 3\n", "there is no such setting"),
        ("x = " + "[" * 50_000, "freki.toml"),
        ("[retrieval]\ntop_k = 3\n[retrieval.profiles.x]\ncontext_tokens = 100\nhits = 'many'\n", "PROFILES__X__HITS"),
    ],
)
async def test_a_bad_file_is_refused_as_a_whole_and_told(text: str, told: str, folder: Path) -> None:
    with metering(TelemetrySettings(http_port=0), "test") as (meter, registry):
        made, taken = reloader(folder, meters=Meters(meter))
        before = made.settings
        write(folder, text)

        assert await made.reload() == ()

        assert told in made.check()["settings"]
        assert taken == []
        assert made.settings == before
        assert refused(registry) == (1, 1)

        write(folder, "[retrieval]\ntop_k = 4\n")
        assert await made.reload() == ("FREKI_RETRIEVAL__TOP_K",)
        assert made.check() == {"settings": ""}
        assert refused(registry) == (0, 1)


def refused(registry: CollectorRegistry) -> tuple[float | None, float | None]:
    total = registry.get_sample_value("freki_settings_reloads_total", {"outcome": "refused"})
    return registry.get_sample_value("freki_settings_refused"), total


async def test_one_part_that_cannot_use_them_leaves_all_parts_as_they_are(folder: Path) -> None:
    made, taken = reloader(folder)

    def prepare(_: Settings) -> TakeOver:
        raise Misconfigured("no tokenizer can be read from x.json")

    with made.reloadable.add(prepare):
        write(folder, "[retrieval]\ntop_k = 3\n")
        assert await made.reload() == ()
    assert "x.json" in made.check()["settings"]
    assert taken == []

    # The part has gone meanwhile.
    assert await made.reload() == ("FREKI_RETRIEVAL__TOP_K",)
    assert taken == [3]


async def test_a_part_that_was_being_opened_meanwhile_takes_them_over_too(folder: Path) -> None:
    made, _ = reloader(folder)
    opened_by, taken = made.settings, list[int]()

    def prepare(settings: Settings) -> TakeOver:
        return lambda: taken.append(settings.retrieval.top_k)

    write(folder, "[retrieval]\ntop_k = 5\n")
    await made.reload()
    with made.reloadable.add(prepare, opened_by=opened_by), made.reloadable.add(prepare, opened_by=made.settings):
        assert taken == [5], "only the part that was opened by those of before"
        write(folder, "[retrieval]\ntop_k = 6\n")
        await made.reload()

    assert taken == [5, 6, 6]


async def test_what_cannot_be_recorded_does_not_happen(folder: Path) -> None:
    made, taken = reloader(folder)

    async def record(_: object) -> None:
        raise Unavailable("the audit log cannot be written")

    made.record = record
    write(folder, "[retrieval]\ntop_k = 3\n")

    assert await made.reload() == ()
    assert "audit log" in made.check()["settings"]
    assert taken == []


async def test_a_file_that_is_gone_does_not_bring_the_defaults_back(folder: Path) -> None:
    write(folder, "[retrieval]\ntop_k = 3\n")
    made, taken = reloader(folder)
    (folder / "freki.toml").unlink()

    assert await made.reload() == ()

    assert "is gone" in made.check()["settings"]
    assert taken == []


async def test_what_the_environment_sets_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_RETRIEVAL__TOP_K", "7")
    made, taken = reloader(folder)
    write(folder, "[retrieval]\ntop_k = 3\n")

    assert await made.reload() == ()
    assert made.check() == {"settings": ""}
    assert taken == []


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - it polls a file
            await asyncio.sleep(0.005)


async def test_the_file_is_followed_and_asking_reads_it_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "CHECK_INTERVAL_S", 0.01)
    made, taken = reloader(folder)
    following = asyncio.create_task(made.follow())
    write(folder, "[retrieval]\ntop_k = 3\n")
    await eventually(lambda: taken == [3])

    monkeypatch.setattr(reload, "CHECK_INTERVAL_S", 3600.0)
    await asyncio.sleep(0.02)
    write(folder, "[retrieval]\ntop_k = 4\n")
    made.ask()
    await eventually(lambda: taken == [3, 4])
    following.cancel()


def test_the_share_of_traces_changes_for_spans_that_begin_later() -> None:
    with tracing(TelemetrySettings(trace_share=0.0), "test") as tracer:
        assert not tracer.start_span("a").is_recording()
        set_trace_share(1.0)
        assert tracer.start_span("b").is_recording()
