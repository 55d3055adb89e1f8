"""What docs/topics.md says of the contracts is so."""

import re
from functools import partial
from pathlib import Path

from freki.schemas.avro import list_schemas
from freki.schemas.avro.contracts import packaged_contracts
from freki.streams.topics import DAY_MS, Topics

TOPICS = partial(
    Topics.from_settings, prefix="freki", version=1, partitions=8, replication=1, max_message_bytes=1_000_000
)
PAGE = (Path(__file__).parents[2] / "docs" / "topics.md").read_text(encoding="utf-8")


def test_the_headers_are_those_of_the_contracts_in_force() -> None:
    shown = dict(re.findall(r"^\| (\w+) \| `C3 01 ([0-9A-F ]+)` \|$", PAGE, flags=re.MULTILINE))

    assert {record: bytes.fromhex(header).hex() for record, header in shown.items()} == {
        entry.record: entry.fingerprint for entry in list_schemas()
    }


def test_the_fields_of_a_query_without_a_default_are_named() -> None:
    fields = packaged_contracts().current("ContextQuery").schema["fields"]
    required = [field["name"] for field in fields if "default" not in field]

    (line,) = re.findall(r"^- (.*) are required\.", PAGE, flags=re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", line)) == set(required)


def test_each_topic_is_listed_with_the_time_that_its_records_are_kept() -> None:
    rows = re.findall(
        r"^\| (`[a-z`, -]+`)[^|]* \|[^|]*\|[^|]*\| (compacted|\d+ days?)[^|]* \|", PAGE, flags=re.MULTILINE
    )
    shown = {name: kept for names, kept in rows for name in re.findall(r"`([a-z][a-z-]+)`", names)}
    kept = {}
    for topic in TOPICS():
        base = topic.name.split(".")[1].removesuffix("-express").removesuffix("-bulk")
        days = topic.retention_ms // DAY_MS
        kept[base] = "compacted" if topic.cleanup == "compact" else f"{days} day{'s' * (days > 1)}"

    assert shown == kept


def test_the_topics_that_generations_share_are_named() -> None:
    later = {topic.name for topic in TOPICS(generation="g2")}
    shared = {topic.name.split(".")[1] for topic in TOPICS() if topic.name in later}

    (names,) = re.findall(r"\bexcept ([^:]*): services need not know", PAGE)
    assert set(re.findall(r"`([a-z-]+)`", names)) == shared
