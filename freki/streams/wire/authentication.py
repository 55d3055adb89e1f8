"""Authentication of queries, as the settings say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from freki.infra.kafka import History
from freki.infra.settings import AuthSettings
from freki.infra.tokens import JwtVerifier, KeySet
from freki.schemas import ContextQuery, GroupMembership
from freki.schemas.avro import Codec
from freki.streams.retrieve.authenticate import Authenticator, TokenJudge
from freki.streams.retrieve.memberships import Memberships
from freki.streams.retrieve.replays import ReplayWindow
from freki.streams.wire.background import read_and_follow
from freki.streams.wire.from_settings import claim_rules_of, uses_kept_ms, wall_clock

if TYPE_CHECKING:
    from freki.streams.wire.parts import Parts


async def open_authenticator(parts: "Parts") -> Authenticator | None:
    """Read the keys of the issuer and the groups of all users, and follow both; None if queries need no token."""
    settings = parts.settings.auth
    if not settings.required:
        return None
    keys = await parts.opened.enter_async_context(KeySet(settings))
    parts.background.spawn(keys.follow())
    verifier = JwtVerifier(keys, algorithms=settings.algorithms)
    return Authenticator(
        _judge(settings, verifier),
        replays=await _open_replays(parts, verifier) if settings.replay_window_s else None,
        groups=await _open_groups(parts),
        reply_topic=None if settings.reply_topic is None else partial(parts.topics.reply_topic, settings.reply_topic),
        meters=parts.meters,
    )


@asynccontextmanager
async def open_judge(settings: AuthSettings) -> AsyncIterator[TokenJudge]:
    """Read the keys of the issuer, and follow them while the context is open."""
    async with KeySet(settings) as keys:
        following = asyncio.create_task(keys.follow())
        try:
            yield _judge(settings, JwtVerifier(keys, algorithms=settings.algorithms))
        finally:
            following.cancel()
            await asyncio.wait({following})


def _judge(settings: AuthSettings, verifier: JwtVerifier) -> TokenJudge:
    return TokenJudge(verifier, claim_rules_of(settings), now=wall_clock)


async def _open_replays(parts: "Parts", verifier: JwtVerifier) -> ReplayWindow:
    history = await parts.opened.enter_async_context(History(parts.settings.kafka, parts.topics.queries.name))
    return ReplayWindow(
        history,
        verifier,
        window_ms=uses_kept_ms(parts.settings.auth),
        decode=parts.codec(ContextQuery).decode,
        encode=Codec(ContextQuery).encode,
        prepare=parts.prepare,
    )


async def _open_groups(parts: "Parts") -> Memberships:
    """Read the groups of all users, so that the first query has them; then follow them."""
    memberships = Memberships()
    take = partial(memberships.take, decode=parts.codec(GroupMembership).decode)
    await read_and_follow(parts, parts.topics.groups.name, opened=memberships.opened, take=take)
    return memberships
