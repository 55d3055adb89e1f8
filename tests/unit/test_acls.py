from pathlib import Path

import pytest
from typer.testing import CliRunner

from freki.cli.main import app
from freki.infra.settings import AuditSettings, AuthSettings, LimitSettings, MilvusSettings, RetrievalSettings, Settings
from freki.streams.app import STAGES
from freki.streams.wire.acls import rights_of
from freki.streams.wire.from_settings import group_of, topics_of

pytestmark = pytest.mark.usefixtures("folder")


def operations(settings: Settings, part: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for right in rights_of(settings)[part]:
        found.setdefault(right.name, set()).update(right.operations)
    return found


def test_every_stage_has_rights_and_reads_by_a_group_of_its_own() -> None:
    rights = rights_of(Settings())

    groups = [
        {right.name for right in rights[stage] if right.resource == "group" and "Read" in right.operations}
        for stage in STAGES
    ]
    assert all(groups)
    assert len(set.union(*groups)) == sum(map(len, groups))


def test_every_topic_is_written_and_read_by_some_part() -> None:
    audit, limits = AuditSettings(enabled=True, key_file=Path("audit.key")), LimitSettings(documents=1)
    settings = Settings(audit=audit, limits=limits)
    parts = [operations(settings, part) for part in rights_of(settings) if part != "dead-letters"]

    for topic in topics_of(settings):
        assert {"Read", "Write"} <= {word for part in parts for word in part.get(topic.name, ())}


def test_access_reads_all_that_it_searches_and_changes_nothing() -> None:
    settings = Settings(retrieval=RetrievalSettings(reply_topics=("team.answers",)))
    topics = topics_of(settings)

    found = operations(settings, "access")

    work = [*topics.chunks.values(), *topics.contextual_chunks.values()]
    answers = [topics.contexts, topics.document_reports, topics.outcomes, topics.dead_letters]
    asked = [topics.documents, topics.judgements, topics.queries, topics.holds, topics.objections]
    assert found == {name: {"Read"} for name in ("team.answers", *(each.name for each in (*work, *answers, *asked)))}


def test_another_generation_has_its_own_groups_and_topics() -> None:
    first, second = Settings(), Settings(milvus=MilvusSettings(generation="g2"))

    common = operations(first, "embed").keys() & operations(second, "embed").keys()

    topics = topics_of(first)
    shared = {topics.documents.name, topics.judgements.name, topics.dead_letters.name}
    assert common == shared, "what users said counts for all generations"
    assert topics_of(first).documents.name in operations(second, "chunk")
    answering = [operations(each, "retrieve") for each in (first, second)]
    for found, each in zip(answering, (first, second), strict=True):
        assert found.pop(topics_of(each).outcomes.name) == {"Read"}, "receipts are part of a history"
    assert answering[0] == answering[1], "one group answers, from any of them"


def test_what_the_settings_leave_out_takes_no_right() -> None:
    settings = Settings()
    topics = topics_of(settings)
    cached = Settings(retrieval=RetrievalSettings(cache_mb=8, reply_topics=("team.answers",)))

    assert topics.judgements.name not in operations(settings, "retrieve")
    assert operations(cached, "retrieve")["team.answers"] == {"Write"}


def test_with_tokens_workers_read_groups_and_answer_on_the_topics_of_tenants() -> None:
    auth = AuthSettings(jwks="keys.json", issuer="i", audience="a", reply_topic="contexts-{tenant}")
    settings = Settings(auth=auth)
    rights = rights_of(settings, tenants=["hr"])

    by_name = {part: {right.name: right.operations for right in each} for part, each in rights.items()}
    assert by_name["retrieve"][topics_of(settings).groups.name] == ("Read",)
    assert by_name["retrieve"]["contexts-hr"] == ("Write",)
    assert by_name["ask"]["contexts-hr"] == ("Read",)
    assert "Create" in by_name["topics"]["contexts-hr"]
    assert topics_of(settings).groups.name not in operations(Settings(), "retrieve")


def test_the_lines_for_the_shell_name_every_right_once() -> None:
    found = CliRunner().invoke(app, ["topics", "acls", "ask", "chunk", "--principal", "User:a b"])

    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert all(line.startswith("kafka-acls.sh --bootstrap-server 127.0.0.1:9092 --add ") for line in lines)
    assert len(lines) == len(set(lines)) == len({*operations(Settings(), "ask"), *operations(Settings(), "chunk")})
    assert "--allow-principal 'User:a b' --operation Write --topic freki.queries.v1" in found.stdout
    assert f"--operation Read --group {group_of(Settings(), 'chunk-express')}" in found.stdout


def test_a_part_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    found = CliRunner().invoke(app, ["topics", "acls", "chunks"])

    assert found.exit_code == 2
    assert "choose from chunk, contextualise" in found.stderr
