"""Minimal Kafka rights of each part of Freki, as `freki topics acls` shows them.

Read, Write or Create on a topic includes Describe, as does Read on a group. Idempotent producers, which Freki uses,
need no further right since Kafka 3.0.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from freki.infra.settings import LimitSettings, Settings
from freki.schemas.names import record
from freki.streams.deliver.lanes import Lane, in_lane
from freki.streams.topics import Topic
from freki.streams.wire.from_settings import group_of, reply_topics_of, topics_of

Operation = Literal["Read", "Write", "Create", "Delete", "Describe", "DescribeConfigs"]


@record
class Right:
    """Operations allowed on one topic or consumer group."""

    resource: Literal["topic", "group"]
    name: str
    operations: tuple[Operation, ...]


def rights_of(settings: Settings, *, tenants: Sequence[str] = ()) -> Mapping[str, Sequence[Right]]:
    """Return the rights by part: stages by their name in `freki worker`, and commands; some depend on settings.

    tenants: those whose topics of answers are named.
    """
    replies = reply_topics_of(settings, tenants)
    return {**_of_stages(settings, replies), **_of_clients(settings, replies), **_of_operators(settings, replies)}


def relay_group(settings: Settings, name: str) -> str:
    """Return the consumer group of a relay, which all generations share."""
    return f"{settings.kafka.topic_prefix}-relay-{name}"


def acl_lines(
    parts: Iterable[Sequence[Right]], principal: str, *, bootstrap: str, login: str | None = None
) -> Iterator[str]:
    """Yield the commands that grant a principal the rights of parts; login: path of the tool's properties file."""
    granted: dict[tuple[str, str], set[Operation]] = {}
    for rights in parts:
        for right in rights:
            granted.setdefault((right.resource, right.name), set()).update(right.operations)
    for (resource, name), operations in granted.items():
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--add", "--allow-principal", principal]
        words += [] if login is None else ["--command-config", login]
        for operation in sorted(operations):
            words += ["--operation", operation]
        yield shlex.join([*words, f"--{resource}", name])


def _of_stages(settings: Settings, replies: Sequence[Topic]) -> dict[str, list[Right]]:
    topics = topics_of(settings)
    cuts, contextual = topics.chunks.values(), topics.contextual_chunks.values()
    limited = settings.limits != LimitSettings()
    return {
        # The lanes read the same topic, each as a separate group.
        "chunk": [
            *_may("Read", topics.documents),
            *_groups(settings, "chunk", in_lane("chunk", Lane.EXPRESS)),
            *_may("Write", *cuts, topics.outcomes, topics.dead_letters),
            # What changes count towards limits of tenants, and what became of them.
            *((*_may("Read", topics.outcomes), *_may(("Read", "Write"), topics.usage)) if limited else ()),
        ],
        "contextualise": [
            *_may("Read", *cuts),
            *_groups(settings, "contextualise"),
            *_may("Write", *contextual, topics.outcomes, topics.dead_letters),
        ],
        "embed": [
            *_may("Read", *contextual),
            *_groups(settings, "embed"),
            *_may("Write", topics.outcomes, topics.dead_letters),
            # Judgements of deleted documents are erased even if no worker reads judgements.
            *_may(("Read", "Write"), topics.judgements),
            # Before old deletions are purged: whether claims are used, where their directory is empty.
            *_may("Read", topics.documents),
            *_audited(settings),
        ],
        "retrieve": [
            *_may("Read", topics.queries, topics.document_queries),
            *_groups(settings, "retrieve"),
            *_may("Write", topics.contexts, topics.document_reports, *replies, topics.dead_letters),
            # Histories of documents. Receipts also invalidate cached results, and cause judgements to be erased.
            *_may("Read", topics.documents, topics.outcomes, topics.dead_letters, topics.objections),
            *(Right(resource="topic", name=name, operations=("Write",)) for name in settings.retrieval.reply_topics),
            *(_may(("Read", "Write"), topics.judgements) if settings.feedback.read else ()),
            *(_may("Read", topics.groups) if settings.auth.required else ()),
            *(_may(("Read", "Write"), topics.usage) if limited else ()),
            *_audited(settings),
        ],
        "erase": [
            *_may("Read", topics.erasure_requests, topics.holds),
            *_groups(settings, "erase"),
            *_may(("Read", "Write"), topics.erasure_reports),
            *(Right(resource="topic", name=name, operations=("Write",)) for name in settings.retrieval.reply_topics),
            *_erasing(settings, replies),
        ],
    }


def _of_clients(settings: Settings, replies: Sequence[Topic]) -> dict[str, list[Right]]:
    topics = topics_of(settings)
    relayed = [(one.topic, one.name or one.topic) for one in settings.relays]
    return {
        # The ledgers of files, git and crawl.
        "publish": [
            *_may("Write", topics.documents),
            *_may("Read", topics.outcomes),
            *_may(("Read", "Write"), topics.sources),
        ],
        "relay": [
            *(Right(resource="topic", name=topic, operations=("Read",)) for topic, _ in relayed),
            *(Right(resource="group", name=relay_group(settings, name), operations=("Read",)) for _, name in relayed),
            *_may("Write", topics.documents, topics.dead_letters),
        ],
        "ask": [*_may("Write", topics.queries), *_may("Read", topics.contexts, *replies)],
        # What services need for the same as the command `documents`.
        "document-queries": [*_may("Write", topics.document_queries), *_may("Read", topics.document_reports)],
        "judge": _may(("Read", "Write"), topics.judgements),
        "groups": [*_may(("Read", "Write"), topics.groups), *_audited(settings)],
        # What services need to request erasures, to place holds, and to record objections.
        "erasure-requests": [*_may("Write", topics.erasure_requests), *_may("Read", topics.erasure_reports)],
        "hold": [*_may(("Read", "Write"), topics.holds), *_audited(settings)],
        "object": [*_may(("Read", "Write"), topics.objections), *_audited(settings)],
    }


def _of_operators(settings: Settings, replies: Sequence[Topic]) -> dict[str, list[Right]]:
    topics = topics_of(settings)
    work = [*topics.chunks.values(), *topics.contextual_chunks.values()]
    return {
        "topics": _may(("Create", "Describe", "DescribeConfigs"), *topics, *replies),
        "status": [
            *_may("Read", topics.documents, topics.queries, topics.document_queries, topics.dead_letters),
            *_waiting(settings),
            *_groups(settings, "retrieve", operation="Describe"),
        ],
        "generations": [
            *_may(("Create", "Delete", "Describe"), *topics.own),
            *_may("Read", topics.documents, *work, topics.contexts),
            *_may(("Read", "Write"), topics.queries),
            # A generation that is created again is read from the beginning.
            *_groups(settings, "chunk", in_lane("chunk", Lane.EXPRESS), "contextualise", "embed"),
        ],
        # `freki erase`, `rectify` and `retention`; requests on the topic need only the rights of `erasure-requests`.
        "erase-command": [
            *_may("Read", topics.holds),
            *_may(("Read", "Write"), topics.erasure_reports),
            *_erasing(settings, replies),
        ],
        "access": [
            *_may("Read", topics.documents, *work, topics.contexts, topics.document_reports, *replies),
            *(Right(resource="topic", name=name, operations=("Read",)) for name in settings.retrieval.reply_topics),
            *_may("Read", topics.judgements, topics.dead_letters, topics.outcomes, topics.queries),
            *_may("Read", topics.holds, topics.objections),
            *_audited(settings),
        ],
        "documents": [
            *_may("Read", topics.documents, topics.outcomes, topics.dead_letters, topics.holds, topics.objections),
            *_audited(settings),
        ],
        "limits": _may("Read", topics.outcomes, topics.usage),
        # `freki audit verify` and `search`.
        "audit": _may("Read", topics.audit),
        "verify": [
            *_may("Read", topics.documents, topics.outcomes),
            # Where index and stream differ, it waits for what is being indexed.
            *_waiting(settings),
            *_audited(settings),
        ],
        "import": [*_may("Read", topics.documents), *_audited(settings)],
        # The first uses the store alone; servers also have the rights of `ask`, `freki serve` also those of `publish`
        # and others.
        **({name: _audited(settings) for name in ("export", "serve", "mcp")} if settings.audit.enabled else {}),
        # Also for `freki verify --repair`. Deleting needs the rights of a producer.
        "reindex": [*_may(("Read", "Write"), topics.documents), *_may("Read", topics.outcomes)],
        "dead-letters": [
            # A record too large for its dead letter is read from its topic, and replayed records are sent there.
            *_may(
                ("Read", "Write"),
                topics.documents,
                *work,
                topics.queries,
                topics.document_queries,
                topics.erasure_requests,
                topics.dead_letters,
            ),
            *(Right(resource="topic", name=one.topic, operations=("Read", "Write")) for one in settings.relays),
            *_audited(settings),
        ],
    }


def _waiting(settings: Settings) -> list[Right]:
    """Return what tells what waits for the stages that fill the generation in use, besides `documents`."""
    topics = topics_of(settings)
    return [
        *_may("Read", *topics.chunks.values(), *topics.contextual_chunks.values()),
        *_groups(settings, "chunk", in_lane("chunk", Lane.EXPRESS), "contextualise", "embed", operation="Describe"),
    ]


def _erasing(settings: Settings, replies: Sequence[Topic]) -> list[Right]:
    """Return what an erasure reads, and deletes records of, in the generation in use."""
    topics = topics_of(settings)
    work = [*topics.chunks.values(), *topics.contextual_chunks.values()]
    answers = [topics.contexts, topics.document_reports, *replies]
    emptied: tuple[Operation, ...] = ("Read", "Delete", "DescribeConfigs")
    named = [
        Right(resource="topic", name=name, operations=("Read", "Delete", "DescribeConfigs"))
        for name in settings.retrieval.reply_topics
    ]
    return [
        *_may(("Read", "Write", "DescribeConfigs"), topics.documents, topics.judgements),
        *_may(emptied, *work, *answers),
        *named,
        # Letters of other documents are sent again.
        *_may(("Read", "Write", "Delete", "DescribeConfigs"), topics.dead_letters),
        *_may("Read", topics.outcomes),
        *_groups(settings, "chunk", in_lane("chunk", Lane.EXPRESS), "contextualise", "embed", operation="Describe"),
        *_audited(settings),
    ]


def _audited(settings: Settings) -> list[Right]:
    return _may("Write", topics_of(settings).audit) if settings.audit.enabled else []


def _may(operations: Operation | tuple[Operation, ...], *topics: Topic) -> list[Right]:
    chosen = operations if isinstance(operations, tuple) else (operations,)
    return [Right(resource="topic", name=topic.name, operations=chosen) for topic in topics]


def _groups(settings: Settings, *names: str, operation: Operation = "Read") -> list[Right]:
    return [Right(resource="group", name=group_of(settings, name), operations=(operation,)) for name in names]
