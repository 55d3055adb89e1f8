"""The services of docker-compose.yml as processes, in the environment that Compose gives them, answer a question."""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from freki.infra.settings import KafkaSettings, MilvusSettings
from tests.compose import process_environment, read_compose
from tests.contract.registry_server import running_registry
from tests.unit.tiny_models import letter_tokenizer, write_cross_encoder, write_hub_files, write_sentence_encoder

PATIENCE_S = 180.0
CHECK_INTERVAL_S = 0.05
SERVICES: Mapping[str, Mapping[str, Any]] = read_compose({})["services"]
WORKERS = ("chunk", "embed", "retrieve")


def elsewhere(folder: Path, broker: KafkaSettings, store: MilvusSettings, registry: str) -> dict[str, str]:
    """Give what differs from a container's environment here: addresses, directories, and models that are small."""
    write_sentence_encoder(folder / "embedder", tokenizer=letter_tokenizer())
    write_hub_files(folder / "embedder", max_tokens=512)
    write_cross_encoder(folder / "reranker")
    kafka = broker.model_copy(update={"topic_prefix": f"{broker.topic_prefix}-{secrets.token_hex(4)}"})
    return {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "FREKI_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "FREKI_KAFKA__PROFILE": kafka.profile,
        "FREKI_KAFKA__TOPIC_PREFIX": kafka.topic_prefix,
        "FREKI_REGISTRY__URL": registry,
        "FREKI_MILVUS__URI": store.uri,
        "FREKI_MILVUS__COLLECTION_PREFIX": f"{store.collection_prefix}_{secrets.token_hex(4)}",
        "FREKI_TELEMETRY__OTLP_ENDPOINT": "",
        "FREKI_TELEMETRY__HTTP_HOST": "127.0.0.1",
        "FREKI_TELEMETRY__HTTP_PORT": "0",
        "FREKI_MODELS__CACHE_DIR": str(folder / "models"),
        "FREKI_MODELS__EMBEDDER": str(folder / "embedder"),
        "FREKI_MODELS__RERANKER": str(folder / "reranker"),
        "FREKI_CLAIMS__DIRECTORY": str(folder / "claims"),
        "FREKI_LLM__LEDGER": str(folder / "llm-tokens"),
        "FREKI_LOCAL__STATE_DIR": str(folder / "state"),
    }


async def start(
    service: str, here: Mapping[str, str], folder: Path, arguments: Sequence[str] = ()
) -> asyncio.subprocess.Process:
    """Start a service's command, or another one in its container."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", *(arguments or SERVICES[service]["command"])),
        env={**process_environment(SERVICES[service], {}), **here},
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def run(service: str, here: Mapping[str, str], folder: Path, *arguments: str) -> str:
    """Run a command to its end; give what it printed."""
    process = await start(service, here, folder, arguments)
    printed, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0, printed.decode()
    return printed.decode()


@asynccontextmanager
async def worker(service: str, here: Mapping[str, str], folder: Path) -> AsyncIterator[None]:
    """Run a worker until the end of the block; yields once it is ready."""
    ready = folder / f"{service}.ready"
    process = await start(service, {**here, "FREKI_READY_FILE": str(ready)}, folder)
    printing = asyncio.create_task(process.communicate())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not ready.exists():
                assert not printing.done(), printing.result()[0].decode()
                await asyncio.sleep(CHECK_INTERVAL_S)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await printing


async def test_the_services_of_the_compose_file_answer_a_question(
    broker: KafkaSettings, store: MilvusSettings, tmp_path: Path
) -> None:
    (tmp_path / "bees.txt").write_text("Bees fly to the flowers of the meadow in the morning.", encoding="utf-8")
    with running_registry() as registry:
        here = elsewhere(tmp_path, broker, store, registry.url)
        await run("topics", here, tmp_path)
        async with AsyncExitStack() as opened:
            for name in WORKERS:
                await opened.enter_async_context(worker(name, here, tmp_path))
            published = await run("freki", here, tmp_path, "publish", "bees.txt", "--wait")
            answer = await run("freki", here, tmp_path, "ask", "Where do bees fly?", "--deadline", "60000")

    assert "1 indexed" in published
    assert "bees.txt" in answer
