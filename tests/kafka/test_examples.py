"""The clients in other languages do what they show."""

import asyncio
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from freki.schemas.avro import export_schemas
from freki.schemas.proto import export_protos
from tests.acceptance.conftest import Freki
from tests.acceptance.test_serve_grpc import serving

EXAMPLES = Path(__file__).parents[2] / "examples"


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"there is no `{program}` on the PATH")


async def run(folder: Path, *command: str) -> str:
    """Run to the end; give what was printed."""
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, check=False, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " INFO " not in done.stderr, "the log of a library hides the answer"
    return done.stdout


def copied(example: str, folder: Path, ignored: Sequence[str]) -> Path:
    """Copy an example, so that it is built from nothing and leaves nothing behind."""
    return Path(shutil.copytree(EXAMPLES / example, folder / example, ignore=shutil.ignore_patterns(*ignored)))


async def test_java_publishes_and_asks(freki: Freki, tmp_path: Path) -> None:
    need("mvn")
    need("java")
    folder = copied("java", tmp_path, ["target"])
    export_schemas(tmp_path / "contracts")

    await run(folder, "mvn", "--batch-mode", "--quiet", "package")
    printed = await run(
        folder, "java", "-jar", "target/freki-example.jar", freki.settings.kafka.bootstrap, str(tmp_path / "contracts")
    )

    assert printed.startswith("receipt: INDEXED")
    assert "answer: COMPLETE" in printed
    assert "1. examples/java: Der Bauantrag ist bei der Gemeinde einzureichen. Java hat ihn ver" in printed


async def test_node_publishes_and_asks(freki: Freki, tmp_path: Path) -> None:
    need("npm")
    need("node")
    folder = copied("node", tmp_path, ["node_modules"])
    export_schemas(tmp_path / "contracts")

    await run(folder, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock")
    printed = await run(
        folder, "node", "publish-and-ask.js", freki.settings.kafka.bootstrap, str(tmp_path / "contracts")
    )

    assert printed.startswith("receipt: INDEXED")
    assert "answer: COMPLETE" in printed
    assert "1. examples/node: Der Angelschein ist beim Ordnungsamt zu beantragen. Node hat ihn ver" in printed


async def test_node_calls_over_grpc_with_a_prompt_of_a_million_characters(freki: Freki, tmp_path: Path) -> None:
    need("npm")
    need("node")
    folder = copied("node-grpc", tmp_path, ["node_modules"])
    assert list(export_protos(tmp_path / "contracts"))

    await run(folder, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock")
    async with serving(freki, tenant=f"node-{secrets.token_hex(4)}") as served:
        printed = await run(folder, "node", "enrich.js", served.grpc_address, str(tmp_path / "contracts"))

    assert printed.startswith("receipt: OUTCOME_STATUS_INDEXED")
    assert "request: as sent" in printed
    assert "examples/node-grpc: Der Waffenschein ist bei der Kreisverwaltung zu beantragen. Node hat" in printed
    assert "the query has 1000000 characters; it was searched by" in printed
