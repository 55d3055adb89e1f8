"""What is said before Apache Kafka runs; tests/kafka runs it."""

from pathlib import Path

import pytest

from freki.infra.local import apache_kafka
from freki.infra.local.apache_kafka import Node, libraries, prepare
from freki.schemas.errors import Misconfigured, Unavailable


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of the test's own, with a Java that is new enough, and an empty cache."""
    folder = tmp_path / "programs"
    folder.mkdir()
    program(folder / "java", "echo 'openjdk version \"17.0.1\"' >&2")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(apache_kafka, "CACHE", tmp_path / "cache")
    return folder


def test_without_java_the_message_says_what_to_install(programs: Path) -> None:
    (programs / "java").unlink()

    with pytest.raises(Misconfigured, match=r"no `java` on the PATH: install one.*FREKI_LOCAL__BROKER=tansu"):
        libraries()


def test_a_java_that_is_too_old_is_named(programs: Path) -> None:
    program(programs / "java", "echo 'openjdk version \"11.0.2\"' >&2")

    with pytest.raises(Misconfigured, match=r"needs Java 17 or newer.*11.0.2"):
        libraries()


def test_without_maven_the_message_names_the_setting_that_does_without() -> None:
    with pytest.raises(Misconfigured, match=r"no `mvn` on the PATH.*FREKI_LOCAL__KAFKA_LIBS"):
        libraries()


def test_a_folder_that_holds_no_kafka_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=f"FREKI_LOCAL__KAFKA_LIBS={tmp_path} holds no kafka"):
        libraries(tmp_path)


def test_the_folder_that_is_given_needs_no_maven(tmp_path: Path) -> None:
    (tmp_path / "kafka_2.13-4.0.0.jar").touch()

    assert libraries(tmp_path) == tmp_path


def test_a_fetch_that_is_cut_off_leaves_nothing_that_counts_as_fetched(programs: Path) -> None:
    program(
        programs / "mvn",
        'for each; do case "$each" in -DoutputDirectory=*) /bin/mkdir -p "${each#*=}";; esac; done; exit 1',
    )

    for _ in range(2):
        with pytest.raises(Unavailable, match="Maven cannot fetch Apache Kafka"):
            libraries()
    assert not apache_kafka.are_here()


def test_what_kafka_says_of_its_properties_is_told(programs: Path, tmp_path: Path) -> None:
    program(programs / "java", "echo 'Invalid value 0 for configuration node.id' >&2; exit 1")
    node = Node(number=1, directory=tmp_path / "node", port=1, controller_port=2)

    with pytest.raises(Misconfigured, match="Invalid value 0"):
        prepare(tmp_path, node)


def test_properties_of_a_caller_win_over_ours(tmp_path: Path) -> None:
    cluster = [
        Node(number=number, directory=tmp_path / str(number), port=number, controller_port=10 + number)
        for number in (1, 2, 3)
    ]
    one = Node(number=1, directory=tmp_path / "1", port=1, controller_port=11, properties={"min.insync.replicas": "2"})

    prepare(tmp_path, one, cluster=cluster)

    written = (tmp_path / "1" / "server.properties").read_text().splitlines()
    assert "min.insync.replicas=2" in written
    assert "controller.quorum.voters=1@127.0.0.1:11,2@127.0.0.1:12,3@127.0.0.1:13" in written
    assert not [line for line in written if "replication.factor=1" in line]
