"""Apache Kafka on this machine without containers: jar files from Maven Central, nodes as plain processes.

The local stack runs one node; tests run several as a cluster. A node is broker and controller in one process (KRaft).
"""

import re
import secrets
import shutil
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

from filelock import FileLock

from freki.infra.local.ports import LOOPBACK
from freki.schemas.errors import Misconfigured, Unavailable

VERSION = "4.3.1"
LEAST_JAVA = 17
CACHE = Path("~/.cache/freki")
_FOLDER = f"kafka-{VERSION}"
FETCH_TIMEOUT_S = 600.0
FORMAT_TIMEOUT_S = 60.0

_JVM = (
    # A local broker is started often and stores little: the C1 compiler alone is sufficient and starts faster.
    *("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"),
)

_ENOUGH_FOR_ONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Settings for a single broker; by default Kafka's internal topics require three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An additional listener of a node, configured by its properties."""

    name: str
    port: int
    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One process of a cluster."""

    number: int
    """Node id, from 1."""
    directory: Path
    """Holds `server.properties` and the records."""
    port: int
    controller_port: int
    listeners: Sequence[Listener] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    """Added to the default properties, which they override."""


def libraries(given: Path | None = None) -> Path:
    """Return the folder of Kafka's jar files, fetched with Maven unless given or cached.

    Blocks for about ten seconds the first time. Raises Misconfigured if Java or Maven is missing or the given folder
    does not contain Kafka, Unavailable if Maven cannot fetch it.
    """
    _check_java()
    if given is not None:
        given = given.expanduser()
        if not any(given.glob("kafka_*.jar")):
            raise Misconfigured(
                f"FREKI_LOCAL__KAFKA_LIBS={given} holds no kafka_*.jar: name the folder `libs` of an Apache Kafka 4"
            )
        return given
    with as_file(files("freki.infra.local") / "apache_kafka.pom.xml") as pom:
        return fetch_jars(
            pom,
            _FOLDER,
            f"-Dkafka.version={VERSION}",
            what=f"Apache Kafka {VERSION}",
            advice="or name the folder `libs` of an Apache Kafka 4 with FREKI_LOCAL__KAFKA_LIBS",
        )


def are_here() -> bool:
    """Return whether the jar files are cached."""
    return (CACHE.expanduser() / _FOLDER).exists()


def fetch_jars(pom: Path, name: str, *options: str, what: str, advice: str = "") -> Path:
    """Return the cache folder with the jar files of a POM, fetched with Maven if missing.

    what, advice: description of the files and alternative to Maven, for error messages. Blocks. Raises Misconfigured
    without Maven, Unavailable if it cannot fetch them.
    """
    folder = CACHE.expanduser() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            _fetch(pom, folder, options, what=what, advice=advice)
    return folder


def prepare(libs: Path, node: Node, *, cluster: Sequence[Node] = (), cluster_id: str = "") -> None:
    """Write the properties of a node, and format its storage if that is empty.

    cluster: all nodes including this one; empty for a single node. cluster_id: common to all nodes, 16 bytes in
    URL-safe Base64; empty: a new one. Blocks for about two seconds while formatting. Raises Misconfigured if Kafka
    rejects the properties.
    """
    node.directory.mkdir(parents=True, exist_ok=True)
    path = node.directory / "server.properties"
    wanted = {**_properties(node, cluster or (node,)), **node.properties}
    path.write_text("".join(f"{name}={value}\n" for name, value in sorted(wanted.items())))
    if (node.directory / "data" / "meta.properties").exists():
        return
    chosen = cluster_id or new_cluster_id()
    done = _run(
        [*_java(libs), "kafka.tools.StorageTool", "format", f"--cluster-id={chosen}", "--config", str(path)],
        timeout_s=FORMAT_TIMEOUT_S,
    )
    if done.returncode:
        raise Misconfigured(f"Apache Kafka cannot use {node.directory}: {done.stderr.strip() or done.stdout.strip()}")


def command(libs: Path, node: Node) -> tuple[str, ...]:
    """Return the command that runs a node; SIGTERM stops it."""
    return (*_java(libs), "kafka.Kafka", str(node.directory / "server.properties"))


def new_cluster_id() -> str:
    """Return a random cluster id, which may begin with a hyphen."""
    return urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")


def _properties(node: Node, cluster: Sequence[Node]) -> dict[str, str]:
    alone = len(cluster) == 1
    plain = f"PLAINTEXT://{LOOPBACK}:{node.port}"
    places = [plain, *(f"{each.name}://{LOOPBACK}:{each.port}" for each in node.listeners)]
    protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT"}
    protocols |= {each.name: each.protocol for each in node.listeners}
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.number),
        "controller.quorum.voters": ",".join(f"{each.number}@{LOOPBACK}:{each.controller_port}" for each in cluster),
        "listeners": ",".join([*places, f"CONTROLLER://{LOOPBACK}:{node.controller_port}"]),
        "advertised.listeners": ",".join(places),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(node.directory / "data"),
        "auto.create.topics.enable": "false",
        # Delay of the first rebalance of a group, 3 s by default, at each start of a worker.
        "group.initial.rebalance.delay.ms": "0",
        # 50 partitions each by default, for clusters with many groups.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        **(_ENOUGH_FOR_ONE if alone else {}),
    }


def _java(libs: Path) -> tuple[str, ...]:
    return ("java", *_JVM, "-cp", f"{libs}/*")


def _check_java() -> None:
    wish = f"Apache Kafka {VERSION} needs Java {LEAST_JAVA} or newer"
    advice = "install one, such as Debian's openjdk-17-jre-headless, or take FREKI_LOCAL__BROKER=tansu"
    program = shutil.which("java")
    if program is None:
        raise Misconfigured(f"{wish}, and there is no `java` on the PATH: {advice}")
    told = _run([program, "-version"], timeout_s=FORMAT_TIMEOUT_S).stderr
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found[1]) < LEAST_JAVA:
        raise Misconfigured(f"{wish}, and `{program}` is another: {told.partition(chr(10))[0]}; {advice}")


def _fetch(pom: Path, folder: Path, options: Sequence[str], *, what: str, advice: str) -> None:
    program = shutil.which("mvn")
    if program is None:
        wish = "install Maven, such as Debian's maven"
        raise Misconfigured(
            f"there is no `mvn` on the PATH to fetch {what} with: {', '.join(filter(None, (wish, advice)))}"
        )
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    done = _run(
        [
            *(program, "--batch-mode", "--quiet", "--file", str(pom), *options),
            *("dependency:copy-dependencies", f"-DoutputDirectory={partial}", "-DincludeScope=runtime"),
        ],
        timeout_s=FETCH_TIMEOUT_S,
    )
    if done.returncode:
        raise Unavailable(f"Maven cannot fetch {what}: {done.stdout.strip()[-1000:]}")
    partial.rename(folder)


def _run(arguments: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=timeout_s)  # noqa: S603 - ours
