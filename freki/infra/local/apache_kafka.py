"""Apache Kafka on this machine, without images: its jar files from Maven Central, its nodes as plain processes.

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
    # A local broker is started often and holds little: the first compiler is enough, and costs less than both.
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
"""Kafka's own topics want three brokers unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A place where a node takes connections besides the plain one, of clients or nodes; how, its properties say."""

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
    """Set in addition to, or in place of, ours."""


def libraries(given: Path | None = None) -> Path:
    """Return the folder of Kafka's jar files, fetched with Maven unless it is given or there already.

    Blocks for about ten seconds the first time. Raises Misconfigured if Java or Maven is missing or the folder that is
    given holds no Kafka, Unavailable if Maven cannot fetch it.
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
    """Return whether the jar files were fetched before."""
    return (CACHE.expanduser() / _FOLDER).exists()


def fetch_jars(pom: Path, name: str, *options: str, what: str, advice: str = "") -> Path:
    """Return the folder of our cache with the jar files that a POM names, fetched with Maven unless it is there.

    `what` they are, and `advice` on how to do without Maven, are for errors. Blocks. Raises Misconfigured if there is
    no Maven, Unavailable if it cannot fetch them.
    """
    folder = CACHE.expanduser() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            _fetch(pom, folder, options, what=what, advice=advice)
    return folder


def prepare(libs: Path, node: Node, *, cluster: Sequence[Node] = (), cluster_id: str = "") -> None:
    """Write the node's properties, and format its storage if that is empty.

    `cluster` are all nodes, this one among them; none: it is alone. All nodes of a cluster have the same `cluster_id`,
    16 bytes in Base64 for URLs; empty: a new one. Blocks for about two seconds where the storage is formatted. Raises
    Misconfigured if Kafka refuses the properties.
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
    """Return the command that runs a node; it ends by SIGTERM."""
    return (*_java(libs), "kafka.Kafka", str(node.directory / "server.properties"))


def new_cluster_id() -> str:
    """Return a random one; it may begin with a hyphen."""
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
        # A group that forms waits this long for more members: 3 s unless set, at each start of a worker.
        "group.initial.rebalance.delay.ms": "0",
        # 50 each unless set: files of a machine that hosts many groups.
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
