import pytest

from tests.stack import ApacheKafka, LocalPrograms, RunningServers, chosen

pytestmark = pytest.mark.usefixtures("folder")


def test_without_a_setting_the_tests_start_the_local_programs() -> None:
    assert isinstance(chosen(), LocalPrograms)


@pytest.mark.parametrize("other", ["", "container", "LOCAL"])
def test_another_value_is_refused_with_the_name_of_the_setting(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    monkeypatch.setenv("FREKI_TEST_STACK", other)

    with pytest.raises(
        pytest.UsageError, match=f"^FREKI_TEST_STACK is local, kafka, containers or running, not '{other}'$"
    ):
        chosen()


def test_apache_kafka_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_TEST_STACK", "kafka")

    assert isinstance(chosen(), ApacheKafka)


def test_running_servers_are_those_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_TEST_STACK", "running")
    monkeypatch.setenv("FREKI_KAFKA__BOOTSTRAP", "kafka:9092")
    monkeypatch.setenv("FREKI_KAFKA__PROFILE", "local")
    monkeypatch.setenv("FREKI_MILVUS__URI", "http://milvus:19530")

    stack = chosen()

    assert isinstance(stack, RunningServers)
    assert (stack.kafka.bootstrap, stack.kafka.profile, stack.milvus.uri) == (
        "kafka:9092",
        "local",
        "http://milvus:19530",
    )


def test_each_session_has_topics_and_collections_of_its_own_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_TEST_STACK", "running")
    monkeypatch.setenv("FREKI_KAFKA__BOOTSTRAP", "kafka:9092")
    monkeypatch.setenv("FREKI_MILVUS__URI", "http://milvus:19530")

    one, other = chosen(), chosen()

    assert isinstance(one, RunningServers)
    assert isinstance(other, RunningServers)
    assert one.kafka.topic_prefix != other.kafka.topic_prefix
    assert one.milvus.collection_prefix != other.milvus.collection_prefix


@pytest.mark.parametrize("missing", ["FREKI_KAFKA__BOOTSTRAP", "FREKI_MILVUS__URI"])
def test_running_servers_must_be_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setenv("FREKI_TEST_STACK", "running")
    for name in {"FREKI_KAFKA__BOOTSTRAP", "FREKI_MILVUS__URI"} - {missing}:
        monkeypatch.setenv(name, "http://somewhere:1")

    with pytest.raises(pytest.UsageError, match=f"^FREKI_TEST_STACK=running needs {missing}: "):
        chosen()


def test_containers_are_those_of_the_composed_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.containers.stack import Containers

    monkeypatch.setenv("FREKI_TEST_STACK", "containers")

    stack = chosen()

    assert isinstance(stack, Containers)
    assert stack.kafka_image.startswith("apache/kafka:")
    assert stack.milvus_image.startswith("milvusdb/milvus:v")


def test_containers_may_be_of_other_images(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.containers.stack import Containers

    monkeypatch.setenv("FREKI_TEST_STACK", "containers")
    monkeypatch.setenv("FREKI_TEST_KAFKA_IMAGE", "kafka:1")
    monkeypatch.setenv("FREKI_TEST_MILVUS_IMAGE", "milvus:2")

    stack = chosen()

    assert isinstance(stack, Containers)
    assert (stack.kafka_image, stack.milvus_image) == ("kafka:1", "milvus:2")


def test_the_composed_broker_is_told_where_clients_find_it() -> None:
    from tests.containers.stack import composed, kafka_environment

    environment = kafka_environment(composed("kafka")["environment"], 12345)

    assert "HOST://127.0.0.1:12345," in environment["KAFKA_ADVERTISED_LISTENERS"]
    assert environment["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert all(isinstance(value, str) for value in environment.values())
