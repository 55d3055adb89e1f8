from collections.abc import Mapping

import httpx
import pytest

from freki.infra.settings import TelemetrySettings
from freki.infra.telemetry.endpoint import serving
from freki.infra.telemetry.metrics import metering
from freki.schemas.errors import Misconfigured
from freki.streams.observe.meters import Meters, PartitionBacklog, StageBacklog

SERVED = TelemetrySettings(http_port=0)


def asked(path: str, health: Mapping[str, str]) -> httpx.Response:
    with (
        metering(SERVED, "embed") as (_, registry),
        serving(SERVED, registry, {"ready": lambda: health, "live": dict}) as url,
    ):
        return httpx.get(url + path)


def test_a_probe_is_answered_by_what_is_wrong() -> None:
    response = asked("/health/ready", {"store": "no answer within 10 s", "models": ""})

    assert response.status_code == 503
    assert response.json() == {
        "ok": False,
        "checks": {"store": {"ok": False, "why": "no answer within 10 s"}, "models": {"ok": True, "why": ""}},
    }


def test_where_nothing_is_wrong_a_probe_succeeds() -> None:
    assert asked("/health/ready", {"store": ""}).status_code == 200
    assert asked("/health/live", {}).json() == {"ok": True, "checks": {}}


def test_other_paths_are_told_which_there_are() -> None:
    response = asked("/", {})

    assert response.status_code == 404
    assert response.json() == {"paths": ["/metrics", "/health/ready", "/health/live"]}


def test_without_a_port_nothing_is_served() -> None:
    settings = TelemetrySettings()

    with metering(settings, "embed") as (_, registry), serving(settings, registry, {}) as url:
        assert url == ""


def test_a_port_that_is_taken_is_named_with_its_setting() -> None:
    with metering(SERVED, "embed") as (_, registry), serving(SERVED, registry, {}) as url:
        taken = TelemetrySettings(http_port=int(url.rpartition(":")[2]))

        with pytest.raises(Misconfigured, match="FREKI_TELEMETRY__HTTP_PORT"), serving(taken, registry, {}):
            pass


@pytest.mark.parametrize("host", ["192.0.2.1", "no host"])
def test_of_an_address_of_another_machine_it_is_said_that_the_host_is_wrong(host: str) -> None:
    elsewhere = TelemetrySettings(http_port=0, http_host=host)

    with (
        metering(SERVED, "embed") as (_, registry),
        pytest.raises(Misconfigured, match="choose an address of this machine"),
        serving(elsewhere, registry, {}),
    ):
        pass


def scraped() -> str:
    with metering(SERVED, "embed") as (meter, registry), serving(SERVED, registry, {}) as url:
        meters = Meters(meter)
        meters.observe_stages(
            lambda: {"embed": StageBacklog((PartitionBacklog("freki.chunks", 3, 12, 4.5),), idle_s=2.5)}
        )
        meters.observe_build_info(lambda: {"version": "1", "generation": "g1", "embedder": "e5", "reranker": ""})
        meters.record_batch("embed", records=8, max_records=32, seconds=0.2, failed=False)
        return httpx.get(f"{url}/metrics").text


def test_a_scraper_reads_gauges_counters_and_the_process() -> None:
    text = scraped()

    assert 'freki_lag_records{partition="3",stage="embed",topic="freki.chunks"} 12.0' in text
    assert 'freki_lag_age_seconds{partition="3",stage="embed",topic="freki.chunks"} 4.5' in text
    assert 'freki_progress_age_seconds{stage="embed"} 2.5' in text
    assert 'freki_records_total{stage="embed"} 8.0' in text
    assert 'freki_build_info{embedder="e5",generation="g1",reranker="",version="1"} 1.0' in text
    assert "process_resident_memory_bytes" in text
