from dataclasses import replace

import pytest

from freki.cli.topics import compared
from freki.infra.kafka.admin import TopicState
from freki.streams.topics import Topic, Topics

TOPICS = Topics.from_settings(prefix="acme", version=2, partitions=6, replication=3, max_message_bytes=1_000_000)


def test_names_are_made_of_prefix_and_version() -> None:
    assert [topic.name for topic in TOPICS] == [
        "acme.documents.v2",
        "acme.chunks-express.v2",
        "acme.chunks.v2",
        "acme.chunks-bulk.v2",
        "acme.contextual-chunks-express.v2",
        "acme.contextual-chunks.v2",
        "acme.contextual-chunks-bulk.v2",
        "acme.outcomes.v2",
        "acme.queries.v2",
        "acme.contexts.v2",
        "acme.document-queries.v2",
        "acme.document-reports.v2",
        "acme.judgements.v2",
        "acme.groups.v2",
        "acme.holds.v2",
        "acme.objections.v2",
        "acme.erasure-requests.v2",
        "acme.erasure-reports.v2",
        "acme.audit.v2",
        "acme.dead-letters.v2",
        "acme.sources.v2",
        "acme.usage.v2",
    ]


def test_documents_and_what_is_decided_about_them_are_kept_for_good() -> None:
    kept = [topic for topic in TOPICS if topic.cleanup == "compact"]

    decided = [TOPICS.judgements, TOPICS.groups, TOPICS.holds, TOPICS.objections, TOPICS.erasure_reports]
    assert kept == [TOPICS.documents, *decided, TOPICS.sources]
    assert all("retention.ms" not in topic.config for topic in kept)
    assert all(int(topic.config["retention.ms"]) > 0 for topic in TOPICS if topic not in kept)


def test_generations_share_what_comes_from_outside() -> None:
    other = Topics.from_settings(
        prefix="acme", version=2, partitions=6, replication=3, max_message_bytes=1_000_000, generation="g2"
    )

    assert {topic.name for topic in other} & {topic.name for topic in TOPICS} == {
        "acme.documents.v2",
        "acme.queries.v2",
        "acme.contexts.v2",
        "acme.document-queries.v2",
        "acme.document-reports.v2",
        "acme.judgements.v2",
        "acme.groups.v2",
        "acme.holds.v2",
        "acme.objections.v2",
        "acme.erasure-requests.v2",
        "acme.erasure-reports.v2",
        "acme.audit.v2",
        "acme.dead-letters.v2",
        "acme.sources.v2",
    }
    assert {topic.name for topic in other.own} == {topic.name for topic in other} - {topic.name for topic in TOPICS}


@pytest.mark.parametrize(
    ("template", "tenant"),
    [
        ("contexts-{tenant}", "a/b"),
        ("contexts-{tenant}", ""),
        ("contexts-{tenant}", "x" * 250),
        ("contexts-{tenant}", "a b"),
        ("acme.{tenant}.v2", "queries"),
        ("acme.{tenant}.v2", "documents"),
        ("acme.{tenant}", "outcomes.v2"),
        ("acme.{tenant}", "outcomes.v2.g7"),
        ("acme.{tenant}", "contexts.v2"),
        ("{tenant}", "__consumer_offsets"),
    ],
)
def test_no_name_of_a_tenant_sends_its_answers_to_a_topic_for_others(template: str, tenant: str) -> None:
    assert TOPICS.reply_topic(template, tenant) is None


def test_a_tenant_has_a_topic_for_its_answers_by_template() -> None:
    topic = TOPICS.answers_to("contexts-{tenant}", "hr")

    assert topic == replace(TOPICS.contexts, name="contexts-hr")
    assert TOPICS.reply_topic("acme.contexts.v2.{tenant}", "hr") == "acme.contexts.v2.hr"


def test_topics_that_share_keys_share_the_number_of_partitions() -> None:
    assert {topic.partitions for topic in TOPICS} == {6}


def test_a_dead_letter_of_the_largest_record_fits() -> None:
    assert TOPICS.dead_letters.max_message_bytes > TOPICS.documents.max_message_bytes


@pytest.mark.parametrize(("replication", "least"), [(1, "1"), (2, "1"), (3, "2"), (5, "3")])
def test_a_record_is_stored_once_most_replicas_have_it(replication: int, least: str) -> None:
    topics = Topics.from_settings(prefix="a", version=1, partitions=1, replication=replication, max_message_bytes=1_000)

    assert {topic.config["min.insync.replicas"] for topic in topics} == {least}


def test_a_compacted_topic_gets_no_partitions_and_the_others_may() -> None:
    def state(topic: Topic, partitions: int) -> str:
        return compared(topic, TopicState(name=topic.name, partitions=partitions, config=topic.config))

    for compacted in (TOPICS.documents, TOPICS.groups):
        assert state(compacted, 4).startswith(
            "partitions is 4, declared 6; read docs/operations.md before you add partitions:"
        )
        assert state(compacted, 6) == "as declared"
        assert state(compacted, 8) == "partitions is 8, declared 6"
    assert state(TOPICS.queries, 4) == "partitions is 4, declared 6"
    hidden = "missing, or may not be described: `freki topics apply` creates it, `freki topics acls` lists the rights"
    assert state(TOPICS.documents, 0) == hidden
