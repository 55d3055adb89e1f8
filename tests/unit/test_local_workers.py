"""Worker processes of the local stack."""

from datetime import UTC, datetime
from pathlib import Path

from freki.infra.local.stack import worker_spec
from freki.infra.local.state import Ports, StackState


def state(directory: Path) -> StackState:
    return StackState(
        pid=1, started_at=datetime.now(UTC), ports=Ports(broker=1, store=2), versions={}, directory=directory
    )


def test_workers_of_the_same_stages_have_names_and_ready_files_of_their_own(tmp_path: Path) -> None:
    first, second = (worker_spec(state(tmp_path), ["embed"], {}, number=number) for number in (1, 2))

    assert (first.name, second.name) == ("embed", "embed-2")
    assert first.ready != second.ready
    assert first.command == second.command
