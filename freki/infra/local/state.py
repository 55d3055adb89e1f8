"""The state directory of the local stack.

- `stack.json`: addresses of the stack; exists only while it runs
- `ports.json`: the ports used last
- `lock`: locked while a stack runs or is ended by its guard; contains the process id
- `logs/`, `run/`: output and readiness files of the children
- `store/`, `claims/`, `traces/`, and `kafka/` where Apache Kafka runs: data
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from freki.infra.durable_files import write_atomically
from freki.infra.local.ports import LOOPBACK
from freki.infra.settings import Settings
from freki.schemas.errors import Misconfigured, Rejected

TAKEOVER_TIMEOUT_S = 15.0
"""Timeout for the guard of a killed stack to end its processes."""

POLL_S = 0.05
_OWNER = "{owner}"
"""Stands for the process that holds a lock, in what is said of it."""

_Port = Annotated[int, Field(ge=0, le=65_535)]
_Model = TypeVar("_Model", bound=BaseModel)


class Ports(BaseModel):
    """Ports of the children."""

    model_config = ConfigDict(frozen=True)

    broker: _Port
    store: _Port
    controller: _Port = 0
    """Controller port of Apache Kafka."""


class StackState(BaseModel):
    """A running stack."""

    model_config = ConfigDict(frozen=True)

    pid: int
    """Id of the supervising process."""
    started_at: datetime
    broker: Literal["tansu", "kafka"] = "tansu"
    ports: Ports
    versions: Mapping[str, str]
    directory: Path
    """Absolute path of the state directory."""
    workers: tuple[str, ...] = ()
    """Names of the worker processes, whether they run or not."""
    names: Mapping[str, Mapping[str, str | int]] = {}
    """Settings that name what the workers use, by section: see `names_in`."""

    @property
    def bootstrap(self) -> str:
        """Address of the broker."""
        return f"{LOOPBACK}:{self.ports.broker}"

    @property
    def milvus_uri(self) -> str:
        """URI of the store."""
        return f"http://{LOOPBACK}:{self.ports.store}"


def read_stack(directory: Path) -> StackState | None:
    """Return the stack that runs on a state directory; None if there is none."""
    state = _read(directory / "stack.json", StackState)
    # The lock decides: after a reboot the process id may belong to another process.
    return state if state and _is_locked(directory) and _is_alive(state.pid) else None


def nearest_stack(directory: Path) -> StackState | None:
    """Return the stack on a state directory; of a relative one also that in the nearest folder above, as git looks.

    One that belongs to somebody else is passed over: its addresses could be anybody's.
    """
    directory = directory.expanduser()
    folders = [Path()] if directory.is_absolute() else [Path.cwd(), *Path.cwd().parents]
    states = (folder / directory for folder in folders)
    return next((stack for each in states if _is_own(each) and (stack := read_stack(each)) is not None), None)


def is_changing(directory: Path) -> bool:
    """Return whether a local stack on a state directory is being started or stopped."""
    return read_stack(directory) is None and _is_locked(directory)


def _is_own(directory: Path) -> bool:
    try:
        return directory.stat().st_uid == os.geteuid()
    except OSError:
        return False


def write_stack(state: StackState) -> None:
    """Write the addresses of the stack for other processes."""
    _write(state.directory / "stack.json", state)


def forget_stack(directory: Path) -> None:
    """Remove the addresses of the stack."""
    (directory / "stack.json").unlink(missing_ok=True)


def read_ports(directory: Path) -> Ports | None:
    """Return the ports used last, if any."""
    return _read(directory / "ports.json", Ports)


def write_ports(directory: Path, ports: Ports) -> None:
    """Write the ports for the next start."""
    _write(directory / "ports.json", ports)


def names_in(settings: Settings) -> dict[str, dict[str, str | int]]:
    """Return the settings that name topics and index: with other ones, commands find neither."""
    kafka = settings.kafka
    return {
        "kafka": {"topic_prefix": kafka.topic_prefix, "topic_version": kafka.topic_version},
        "milvus": {"generation": settings.milvus.generation},
    }


def settings_for(settings: Settings, stack: StackState) -> Settings:
    """Return the settings with the addresses of a local stack."""
    return settings.model_copy(
        update={
            section: getattr(settings, section).model_copy(update=values)
            for section, values in _overrides(settings, stack).items()
        }
    )


def environment_for(settings: Settings, stack: StackState) -> dict[str, str]:
    """Return the environment variables for processes of the stack: `settings_for`, but each serves at a free port."""
    variables = {
        f"FREKI_{section}__{name}".upper(): str(value)
        for section, values in _overrides(settings, stack).items()
        for name, value in values.items()
    }
    return variables | {"FREKI_TELEMETRY__HTTP_PORT": "0"}


def _overrides(settings: Settings, stack: StackState) -> dict[str, dict[str, object]]:
    """Return the changed settings by section: no encryption, replicas or databases.

    Configured directories are kept, and names that are set.
    """
    profile = "local" if stack.broker == "tansu" else "kafka"
    values: dict[str, dict[str, object]] = {
        "kafka": {"bootstrap": stack.bootstrap, "profile": profile, "security": "PLAINTEXT", "replication": 1},
        "milvus": {"uri": stack.milvus_uri, "database": "default", "partition_key": False},
    }
    for section, names in stack.names.items():
        chosen = getattr(settings, section).model_fields_set
        values[section] |= {name: value for name, value in names.items() if name not in chosen}
    telemetry = settings.telemetry
    values["telemetry"] = {
        "trace_dir": telemetry.trace_dir or stack.directory / "traces",
        "http_port": telemetry.http_port or 0,
    }
    if "directory" not in settings.claims.model_fields_set:
        values["claims"] = {"directory": str(stack.directory / "claims")}
    return values


@asynccontextmanager
async def locked(directory: Path) -> AsyncIterator[int]:
    """Lock the state directory, created if missing, and yield the file descriptor of the lock.

    The lock lasts until the last process with the descriptor ends. Waits for the end of a killed stack. Raises Rejected
    if a stack runs on the directory, Misconfigured if it cannot be written.
    """
    refusal = (
        f"a local stack runs on {directory} already (process {_OWNER}): stop it, or choose another "
        "directory with FREKI_LOCAL__STATE_DIR"
    )
    async with _held(directory, "lock", refusal, killed=f"a killed local stack on {directory}") as descriptor:
        yield descriptor


@asynccontextmanager
async def locked_generation(directory: Path, generation: str) -> AsyncIterator[int]:
    """Lock a generation for a command that fills or removes it, as `locked` does the stack.

    Raises Rejected while another one does.
    """
    refusal = (
        f"{generation} is being filled or removed already, by process {_OWNER}: end that first, or give the other "
        "generation another name"
    )
    name = f"fill-{generation}.lock"
    async with _held(directory, name, refusal, killed=f"a killed command for {generation}") as descriptor:
        yield descriptor


@asynccontextmanager
async def _held(directory: Path, name: str, refusal: str, *, killed: str) -> AsyncIterator[int]:
    with _open_lock(directory, name) as file:
        await _take(file, refusal, killed)
        with writing(directory):
            file.truncate(0)
            file.write(str(os.getpid()).encode("ascii"))
        yield file.fileno()


def _open_lock(directory: Path, name: str) -> BinaryIO:
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        # Without a buffer, which closing would try to write again to a full disk.
        return (directory / name).open("ab+", buffering=0)


async def _take(file: BinaryIO, refusal: str, killed: str) -> None:
    for attempt in range(round(TAKEOVER_TIMEOUT_S / POLL_S)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(file)
            # The first failure may be another process that checks whether a stack runs.
            if attempt and owner and _is_alive(owner):
                raise Rejected(refusal.replace(_OWNER, str(owner))) from None
            await asyncio.sleep(POLL_S)
        else:
            return
    raise Rejected(f"processes of {killed} did not end within {TAKEOVER_TIMEOUT_S:g} s")


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Raise Misconfigured, naming the setting, where the state directory cannot be written."""
    try:
        yield
    except OSError as error:
        raise Misconfigured(
            f"cannot write to the state directory {directory}: {error.strerror}; make room or allow writing "
            "there, or choose another with FREKI_LOCAL__STATE_DIR"
        ) from error


def _owner(file: BinaryIO) -> int | None:
    file.seek(0)
    text = file.read()
    return int(text) if text.isdigit() else None


def _is_locked(directory: Path) -> bool:
    try:
        with (directory / "lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read(path: Path, kind: type[_Model]) -> _Model | None:
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _write(path: Path, content: BaseModel) -> None:
    with writing(path.parent):
        write_atomically(path, lambda fresh: fresh.write_text(content.model_dump_json(indent=2)))
