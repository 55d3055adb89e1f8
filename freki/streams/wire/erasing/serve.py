"""The handler of requests for erasures in a worker, as the settings say."""

import asyncio
import random
from dataclasses import asdict
from typing import TYPE_CHECKING

import structlog

from freki.infra.signing import SigningKey
from freki.schemas import ErasureReport
from freki.schemas.errors import InfraError, Misconfigured
from freki.streams.privacy.requests import ErasureRequests, RequestRules
from freki.streams.privacy.retention import Retention
from freki.streams.wire.authentication import open_judge
from freki.streams.wire.erasing.deletions import PublishedDeletions
from freki.streams.wire.erasing.holds import open_holds
from freki.streams.wire.erasing.open import erasure_of
from freki.streams.wire.erasing.places import Places
from freki.streams.wire.erasing.reports import TopicReports
from freki.streams.wire.erasing.retention import retention_of
from freki.streams.wire.from_settings import wall_clock

if TYPE_CHECKING:
    from freki.streams.wire.parts import Parts

_log = structlog.get_logger(__name__)


async def open_erasure_requests(parts: "Parts") -> ErasureRequests:
    """Open the handler, and look from time to time whether holds on requested documents have ended."""
    settings, erasure = parts.settings, parts.settings.erasure
    key_file = erasure.key_file or settings.audit.key_file
    if not erasure.enabled or key_file is None:
        raise Misconfigured("the stage `erase` needs FREKI_ERASURE__ENABLED=true and FREKI_ERASURE__KEY_FILE")
    index, audit = await parts.open_index(), await parts.open_audit("erase")
    places = Places(settings, index=index, registry=parts.registry, outbox=parts.outbox, patience_s=erasure.patience_s)
    required = settings.auth.required
    judge = await parts.opened.enter_async_context(open_judge(settings.auth)) if required else None
    signer = SigningKey.read(key_file)
    reports = parts.sink(ErasureReport, parts.topics.erasure_reports)
    deletions, holds = PublishedDeletions(settings, index, patience_s=erasure.patience_s), open_holds(settings)
    requests = ErasureRequests(
        erasure_of(places, deletions, holds, signer, audit=audit),
        rules=RequestRules(
            requesters=frozenset(erasure.requesters),
            reply_topics=tuple(settings.retrieval.reply_topics),
            max_report_bytes=settings.kafka.max_message_bytes,
        ),
        reports=TopicReports(settings),
        holds=holds,
        sink=reports,
        hash_text=signer.hash_text,
        now=wall_clock,
        identify=None if judge is None else judge.identify,
        audit=audit,
    )
    parts.background.spawn(resume_held(requests, erasure.look_s))
    if (every_hours := settings.retention.every_hours) is not None:
        retention = retention_of(settings, places, reports, audit=audit, by="retention")
        parts.background.spawn(retain(retention, every_hours * 3600))
    return requests


async def resume_held(requests: ErasureRequests, look_s: float) -> None:
    """Look at intervals whether holds on requested documents have ended. Raises Misconfigured."""
    while True:
        await asyncio.sleep(look_s)
        try:
            await requests.resume()
        except Misconfigured:
            raise
        except InfraError as error:
            _log.warning("requests whose documents were held wait for another look", error=str(error))


async def retain(retention: Retention, every_s: float) -> None:
    """Apply the rules at the start, and then at random intervals, because one worker at a time suffices.

    Raises Misconfigured.
    """
    while True:
        try:
            done = await retention.run()
            tell = _log.warning if done.failures else _log.info
            tell("rules of retention were applied", **asdict(done))
        except Misconfigured:
            raise
        except InfraError as error:
            _log.warning("rules of retention wait for the next time", error=str(error))
        await asyncio.sleep(every_s * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load
