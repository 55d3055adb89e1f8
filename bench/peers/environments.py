"""Environments of the peers: separate, since their requirements conflict, with pinned versions."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from freki.schemas.names import record

ROOT = Path(__file__).parents[2]
_HOME = ROOT / ".peers"
_REQUIREMENTS = Path(__file__).parent / "requirements"
_INSTALL_TIMEOUT_S = 1800.0
_NO_CALLS_HOME = {
    "COCOINDEX_DISABLE_USAGE_TRACKING": "1",
    "DO_NOT_TRACK": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LANGSMITH_TRACING": "false",
}


@record
class Peer:
    """System under comparison."""

    name: str
    title: str
    searches: bool
    """Whether search is measured too; otherwise only updates."""
    environment: str | None
    """Name of its requirements file; None: Freki's environment."""
    package: str
    """Package whose version is reported."""


PEERS = {
    peer.name: peer
    for peer in (
        Peer(name="freki", title="Freki", searches=True, environment=None, package="freki"),
        Peer(
            name="llamaindex",
            title="LlamaIndex",
            searches=True,
            environment="llamaindex",
            package="llama-index-core",
        ),
        Peer(name="langchain", title="LangChain", searches=True, environment="langchain", package="langchain-core"),
        Peer(
            name="langchain_scoped",
            title="LangChain, scoped_full",
            searches=False,
            environment="langchain",
            package="langchain-core",
        ),
        Peer(name="haystack", title="Haystack", searches=True, environment="haystack", package="haystack-ai"),
        Peer(
            name="haystack_writer",
            title="Haystack, writer alone",
            searches=False,
            environment="haystack",
            package="haystack-ai",
        ),
        Peer(name="cocoindex", title="CocoIndex", searches=False, environment="cocoindex", package="cocoindex"),
        Peer(name="pathway", title="Pathway", searches=False, environment="pathway", package="pathway"),
    )
}


class NotInstallable(Exception):
    """Error: an environment cannot be created; the message has the reason."""


def interpreter_of(peer: Peer) -> Path:
    """Return the interpreter of a peer's environment, created if missing. Raises NotInstallable."""
    if peer.environment is None:
        return Path(sys.executable)
    home, pinned = _HOME / peer.environment, _REQUIREMENTS / f"{peer.environment}.txt"
    python, ready = home / "bin" / "python", home / ".ready"
    wanted = hashlib.sha256(pinned.read_bytes()).hexdigest()
    if not ready.exists() or ready.read_text() != wanted:
        _run(sys.executable, "-m", "venv", "--clear", str(home))
        _run(str(python), "-m", "pip", "install", "--quiet", "--requirement", str(pinned))
        # Without Freki's other dependencies: the peers pin other versions of some of them.
        _run(str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--editable", str(ROOT))
        ready.write_text(wanted)
    return python


def variables() -> Mapping[str, str]:
    """Return the environment variables of a measurement."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FREKI_")}
    return {**ours, **_NO_CALLS_HOME}


def version_of(peer: Peer) -> str:
    """Return the pinned version of a peer; empty for Freki, which is identified by commit."""
    if peer.environment is None:
        return ""
    lines = (_REQUIREMENTS / f"{peer.environment}.txt").read_text().splitlines()
    pinned = dict(line.split("==", 1) for line in lines if "==" in line)
    return pinned.get(peer.package, "")


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S)  # noqa: S603
    except subprocess.CalledProcessError as error:
        errors = [line for line in error.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstallable(errors[-1] if errors else f"{command[0]} failed") from error
    except subprocess.TimeoutExpired as error:
        raise NotInstallable(f"not finished after {_INSTALL_TIMEOUT_S:.0f} s") from error
