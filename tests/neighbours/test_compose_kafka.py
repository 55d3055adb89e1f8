"""Apache Kafka takes the environment that docker-compose.yml gives it, and the health check there finds it healthy."""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from freki.infra.kafka.admin import Admin
from freki.infra.local import apache_kafka
from freki.infra.settings import KafkaSettings, Settings
from freki.streams.wire.from_settings import topics_of
from tests.compose import read_compose
from tests.neighbours.programs import jars_of
from tests.stack import free_port

SERVICE: Mapping[str, Any] = read_compose({})["services"]["kafka"]
TOOLS = Path(__file__).with_name("kafka-tools.pom.xml")
CHECKS = 60


def properties(environment: Mapping[str, object], folder: Path, ports: Mapping[str, int]) -> dict[str, str]:
    """Do as the image does: KAFKA_NODE_ID becomes node.id; with ports and folders of this machine."""
    found = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
        for name, value in environment.items()
        if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"
    }
    assert found.pop("log.dirs") == "/var/lib/kafka/data"
    here = {
        name: value.replace("kafka:", "127.0.0.1:").replace("://:", "://127.0.0.1:") for name, value in found.items()
    }
    moved = {
        name: re.sub(r"(?<=:)\d+\b", lambda port: str(ports.get(port[0], port[0])), value)
        for name, value in here.items()
    }
    return {**moved, "log.dirs": str(folder / "data")}


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Mapping[str, int]]:
    """Run the service until it is healthy, and until the end of the test; give its ports."""
    libs, tools = apache_kafka.libraries(), jars_of(TOOLS)
    ports = {port: free_port() for port in ("9092", "19092", "29093")}
    file, log = tmp_path / "server.properties", tmp_path / "log"
    wanted = properties(SERVICE["environment"], tmp_path, ports)
    file.write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
    java = ["java", *SERVICE["environment"]["KAFKA_HEAP_OPTS"].split(), "-cp", f"{libs}/*"]
    cluster = SERVICE["environment"]["CLUSTER_ID"]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(file)], check=True, capture_output=True
    )
    _, program, *arguments = SERVICE["healthcheck"]["test"]
    assert program == "/opt/kafka/bin/kafka-broker-api-versions.sh"
    asking = [
        *("java", "-cp", f"{tools}/*", "org.apache.kafka.tools.BrokerApiVersionsCommand"),
        *(each.replace("kafka:19092", f"127.0.0.1:{ports['19092']}") for each in arguments),
    ]
    with log.open("wb") as output:
        server = subprocess.Popen([*java, "kafka.Kafka", str(file)], stdout=output, stderr=output)
    try:
        said = ""
        for _ in range(CHECKS):
            assert server.poll() is None, log.read_text()
            check = subprocess.run(asking, check=False, capture_output=True, text=True)
            if check.returncode == 0:
                break
            said = check.stdout + check.stderr
            time.sleep(1)
        else:
            pytest.fail(said + log.read_text())
        yield ports
    finally:
        server.terminate()
        server.wait()


async def test_a_healthy_kafka_takes_our_topics(kafka: Mapping[str, int]) -> None:
    # As a program on the host, which has another listener than those in the network.
    settings = Settings(kafka=KafkaSettings(bootstrap=f"127.0.0.1:{kafka['9092']}", replication=1))
    async with Admin(settings.kafka) as admin:
        await admin.ensure_topics(list(topics_of(settings)))
        states = await admin.describe([topic.name for topic in topics_of(settings)])

    made = {state.name: state.partitions for state in states}
    assert made == {topic.name: topic.partitions for topic in topics_of(settings)}
