"""Configuration values of stages, derived from settings.

Store and models are imported where they are used: most commands need neither, and start in half the time.
"""

import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from freki.infra.settings import (
    PROFILES,
    AuthSettings,
    LexicalSettings,
    RetrievalSettings,
    Settings,
)
from freki.infra.telemetry.calls import Calls
from freki.operators.analyse_text import ANALYSER, PLAIN, analyse_text, plain_terms, protected_words, query_terms
from freki.operators.check_claims import ClaimRules
from freki.operators.rephrase import Thesaurus, WrongThesaurus, parse_thesaurus
from freki.schemas import Timestamp
from freki.schemas.errors import Misconfigured
from freki.schemas.index import Generation
from freki.streams.deliver.lanes import Lane, in_lane
from freki.streams.ports import AnalyseText
from freki.streams.retrieve.profiles import ReaderProfile
from freki.streams.topics import DAY_MS, Topic, Topics

if TYPE_CHECKING:
    from freki.infra.milvus.index import MilvusIndex

RETRIEVE, ERASE = "retrieve", "erase"
"""Consumer groups of the workers that answer, and of those that erase."""
MIB = 1 << 20
"""Bytes of a mebibyte."""


def wall_clock() -> Timestamp:
    """Return the current time in milliseconds since 1970."""
    return Timestamp(time.time_ns() // 1_000_000)


def topics_of(settings: Settings) -> Topics:
    """Return the topics of the generation in use."""
    kafka = settings.kafka
    return Topics.from_settings(
        prefix=kafka.topic_prefix,
        version=kafka.topic_version,
        generation=settings.milvus.generation,
        partitions=kafka.partitions,
        replication=kafka.replication,
        max_message_bytes=kafka.max_message_bytes,
        audit_ms=settings.audit.retention_days * DAY_MS,
    )


def reply_topics_of(settings: Settings, tenants: Sequence[str]) -> list[Topic]:
    """Return the topics of the answers to tenants; none if the settings name none.

    Raises Misconfigured for a tenant that can have none.
    """
    template, topics = settings.auth.reply_topic, topics_of(settings)
    if template is None:
        return []
    found = {tenant: topics.answers_to(template, tenant) for tenant in tenants}
    for tenant, topic in found.items():
        if topic is None:
            raise Misconfigured(
                f"tenant {tenant!r} has no topic for its answers: with FREKI_AUTH__REPLY_TOPIC={template} its name "
                "must consist of letters, digits, dots, underscores and hyphens, and not name another topic"
            )
    return [topic for topic in found.values() if topic is not None]


def allowed_reply_topics(settings: Settings) -> tuple[str, ...]:
    """Return the topics that queries may name. Raises Misconfigured for one that stages of Freki read or write."""
    topics, named = topics_of(settings), settings.retrieval.reply_topics
    if own := [name for name in named if topics.is_own(name) and name != topics.contexts.name]:
        raise Misconfigured(
            f"FREKI_RETRIEVAL__REPLY_TOPICS names {', '.join(own)}, of Freki itself: name topics of your services"
        )
    return named


def group_of(settings: Settings, name: str) -> str:
    """Return the full name of a consumer group: each generation is filled by its own.

    One answers from any of them, and one erases in all of them.
    """
    own = "" if name in (RETRIEVE, ERASE) else f"{settings.milvus.generation}-"
    return f"{settings.kafka.topic_prefix}-{own}{name}"


def settings_named(settings: Settings, generation: str) -> Settings:
    """Return the settings with the name of another generation."""
    return settings.model_copy(update={"milvus": settings.milvus.model_copy(update={"generation": generation})})


class StageSource(NamedTuple):
    """What a stage reads in one lane."""

    stage: str
    """Name of the stage, and of the lane where it is not the regular one."""
    group: str
    """Name of the consumer group without prefix and generation; lanes may share one."""
    topic: str


def ingest_sources(settings: Settings) -> list[StageSource]:
    """Return what the stages that fill the generation in use read, in flow order."""
    topics = topics_of(settings)
    chunk = [in_lane("chunk", lane) for lane in (Lane.EXPRESS, Lane.REGULAR)]
    return [
        # These lanes read one topic, each as a group of its own.
        *(StageSource(name, name, topics.documents.name) for name in chunk),
        *(
            StageSource(in_lane(group, lane), group, topic.name)
            for group, lanes in (("contextualise", topics.chunks), ("embed", topics.contextual_chunks))
            for lane, topic in lanes.items()
        ),
    ]


def profiles_of(settings: RetrievalSettings) -> Mapping[str, ReaderProfile]:
    """Return the reader profiles that queries may name: sizes for the model that reads the context."""
    from freki.infra.models.tokens import open_counter  # noqa: PLC0415

    return {
        name: ReaderProfile(
            context_tokens=profile.context_tokens,
            top_k=profile.hits,
            min_similarity=profile.min_similarity,
            count_tokens=None if profile.tokenizer is None else open_counter(profile.tokenizer),
        )
        for name, profile in {**PROFILES, **settings.profiles}.items()
    }


def thesaurus_of(settings: RetrievalSettings) -> Thesaurus:
    """Read the synonyms of the domain; without a file there are none. Raises Misconfigured, with the line."""
    file = settings.thesaurus
    if file is None:
        return Thesaurus()
    try:
        return Thesaurus(parse_thesaurus(file.read_text(encoding="utf-8")))
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}; correct the path"
    except UnicodeDecodeError as error:
        problem = f"it is not UTF-8 at byte {error.start}; save it as UTF-8"
    except WrongThesaurus as error:
        problem = str(error)
    raise Misconfigured(f"FREKI_RETRIEVAL__THESAURUS: {file.absolute()}: {problem}")


class Analyser(NamedTuple):
    """Analysers of chunks and of queries, with their version."""

    version: str
    of_chunks: AnalyseText
    of_queries: AnalyseText


def analyser_of(settings: LexicalSettings) -> Analyser:
    """Return the analyser that the settings name."""
    if settings.analyser == "plain":
        return Analyser(PLAIN, plain_terms, plain_terms)
    if settings.protected is None:
        return Analyser(ANALYSER, analyse_text, query_terms)
    words = _protected(settings.protected)
    digest = blake2b("\n".join(sorted(words)).encode(), digest_size=4).hexdigest()
    return Analyser(
        f"{ANALYSER}+{digest}", partial(analyse_text, protected=words), partial(query_terms, protected=words)
    )


@cache
def _protected(path: Path) -> frozenset[str]:
    try:
        return protected_words(path.expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(
            f"FREKI_LEXICAL__PROTECTED={path} cannot be read as UTF-8 text: correct the path"
        ) from error


def rows_version(settings: Settings) -> str:
    """Return the version of the analyser, and whether rows are encrypted: on a change rows are rewritten."""
    version = analyser_of(settings.lexical).version
    return version if settings.encryption.keys is None else f"{version}, encrypted"


def index_of(
    settings: Settings, *, embedder: str, dim: int, calls: Calls | None = None, creates: bool = True
) -> "MilvusIndex":
    """Return the store of the generation in use, not yet opened; creates: whether missing collections are created."""
    from freki.infra.milvus.index import MilvusIndex  # noqa: PLC0415

    generation = generation_of(settings, embedder=embedder, dim=dim)
    return MilvusIndex(settings.milvus, generation, calls, encryption=settings.encryption, creates=creates)


def generation_of(settings: Settings, *, embedder: str, dim: int) -> Generation:
    """Return the parameters of the generation in use; embedder, dim: fingerprint and dimension of its embedder."""
    from freki.infra.models import kind_embedder_identities  # noqa: PLC0415

    return Generation(
        name=settings.milvus.generation,
        embedder=embedder,
        dim=dim,
        analyser=analyser_of(settings.lexical).version,
        kind_embedders=kind_embedder_identities(settings.models),
    )


def claim_rules_of(settings: AuthSettings) -> ClaimRules:
    """Return what tokens must claim; with a replay window none may be older, whose use might be forgotten."""
    return ClaimRules(
        issuer=settings.issuer or "",
        audience=settings.audience or "",
        leeway_s=settings.leeway_s,
        max_age_s=settings.max_age_s or settings.replay_window_s or None,
        tenant=settings.tenant_claim,
        principal=settings.principal_claim,
        groups=settings.groups_claim,
    )


def uses_kept_ms(settings: AuthSettings) -> int:
    """Return how long uses of tokens are remembered: as long as a token may be accepted, whichever clocks judge it."""
    return int(1000 * (settings.replay_window_s + 2 * settings.leeway_s))
