"""Worker processes of the local stack."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from freki.infra.local.specs import share_cores, worker_spec, workers_of
from freki.infra.local.state import Ports, StackState
from freki.infra.settings import ErasureSettings, KafkaSettings, LocalSettings, ModelSettings, Settings
from freki.streams.app import STAGES


def state(directory: Path) -> StackState:
    return StackState(
        pid=1, started_at=datetime.now(UTC), ports=Ports(broker=1, store=2), versions={}, directory=directory
    )


def test_workers_of_the_same_stages_have_names_and_ready_files_of_their_own(tmp_path: Path) -> None:
    first, second = (worker_spec(state(tmp_path), ["embed"], {}, number=number) for number in (1, 2))

    assert (first.name, second.name) == ("embed", "embed-2")
    assert first.ready != second.ready
    assert first.command == second.command


@pytest.mark.parametrize(("embed_workers", "threads"), [(1, {}), (2, {"4"}), (3, {"2"}), (20, {"1"})])
def test_workers_that_embed_share_the_cores(embed_workers: int, threads: set[str]) -> None:
    partitions = KafkaSettings(partitions=20)
    workers = workers_of(Settings(kafka=partitions, local=LocalSettings(embed_workers=embed_workers)), cores=8)

    shares = [share_cores(stages, workers, ModelSettings(), cores=8) for stages in workers]

    assert [stages for stages in workers if "embed" in stages] == [("embed",)] * embed_workers
    assert {share for each in shares for share in each.values()} == set(threads)
    assert sum(map(bool, shares)) == (embed_workers if threads else 0)


def test_threads_that_were_set_stay_as_they_are() -> None:
    workers = workers_of(Settings(local=LocalSettings(embed_workers=2)))

    assert not any(share_cores(stages, workers, ModelSettings(threads=3), cores=8) for stages in workers)


def test_a_single_worker_runs_every_stage_and_has_all_cores() -> None:
    (stages,) = workers_of(Settings(local=LocalSettings(single_worker=True)))

    assert set(stages) == set(STAGES) - {"erase"}
    assert share_cores(stages, [stages], ModelSettings(), cores=8) == {}


@pytest.mark.parametrize(
    ("local", "cores", "processes"),
    [
        (LocalSettings(), 1, 1),
        (LocalSettings(), 2, 1),
        (LocalSettings(), 4, 3),
        (LocalSettings(single_worker=False), 2, 3),
        (LocalSettings(single_worker=True), 64, 1),
        (LocalSettings(embed_workers=2), 2, 4),
    ],
)
def test_few_cores_have_one_worker_unless_settings_say_otherwise(
    local: LocalSettings, cores: int, processes: int
) -> None:
    assert len(workers_of(Settings(local=local), cores=cores)) == processes


@pytest.mark.parametrize("single_worker", [True, False])
def test_erasures_have_a_worker_where_they_are_enabled(*, single_worker: bool) -> None:
    erasure = ErasureSettings(enabled=True, key_file=Path("erase.key"))
    workers = workers_of(Settings(erasure=erasure, local=LocalSettings(single_worker=single_worker)))

    assert {stage for stages in workers for stage in stages} == set(STAGES)
    assert (("erase",) in workers) is not single_worker
