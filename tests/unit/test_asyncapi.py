"""The AsyncAPI document says what crosses the topics: it is fresh, whole, and its examples are valid."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from freki.schemas.avro import TOPICS, Codec, packaged_contracts
from freki.schemas.avro.contracts import COMPATIBILITY, Compatibility
from freki.streams import asyncapi
from freki.streams.asyncapi import document, page

FILE = Path(__file__).parents[2] / asyncapi.FILE
INTERNAL = {"chunks", "contextual-chunks"}


def test_it_is_the_one_that_follows_from_topics_and_contracts() -> None:
    assert FILE.read_text(encoding="utf-8") == page(), "run `make docs`"
    assert yaml.safe_load(page()) == document()


def test_each_topic_of_services_is_a_channel_with_its_record() -> None:
    channels = document()["channels"].values()

    addresses = {(channel["address"], *channel["messages"]) for channel in channels}
    assert addresses == {
        (f"freki.{topic}.v1", record.__name__) for record, topic in TOPICS.items() if topic not in INTERNAL
    }
    messages = document()["components"]["messages"]
    for name, message in messages.items():
        assert message["payload"]["schema"] == packaged_contracts().current(name).schema


def test_freki_sends_what_it_writes_and_receives_what_others_write() -> None:
    actions = {name: each["action"] for name, each in document()["operations"].items()}

    for record, topic in TOPICS.items():
        if topic not in INTERNAL:
            action = "send" if COMPATIBILITY[record] is Compatibility.FULL_TRANSITIVE else "receive"
            assert actions[f"{action}{record.__name__}"] == action
    replies = {name for name, each in document()["operations"].items() if "reply" in each}
    assert replies == {"receiveDocumentChange", "receiveContextQuery", "receiveDocumentQuery", "receiveErasureRequest"}


def test_each_reference_leads_somewhere() -> None:
    for reference in _references(document()):
        part: Any = document()
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]
        assert part


@pytest.mark.parametrize("example", asyncapi._EXAMPLES, ids=lambda example: type(example).__name__)
def test_an_example_is_a_record_of_its_contract(example: object) -> None:
    message = document()["components"]["messages"][type(example).__name__]
    (shown,) = message["examples"]

    codec: Codec[Any] = Codec(type(example))
    assert codec.decode(codec.encode(example)) == example
    required = {each["name"] for each in message["payload"]["schema"]["fields"] if "default" not in each}
    assert required - {"chunk_id"} <= shown["payload"].keys()


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for each in part.values():
            yield from _references(each)
    elif isinstance(part, list):
        for each in part:
            yield from _references(each)
