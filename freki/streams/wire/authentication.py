"""Authentication of queries, as the settings say."""

from typing import TYPE_CHECKING

from freki.infra.tokens import JwtVerifier, KeySet
from freki.streams.retrieve.authenticate import Authenticator
from freki.streams.wire.from_settings import claim_rules_of, wall_clock

if TYPE_CHECKING:
    from freki.streams.wire.parts import Parts


async def open_authenticator(parts: "Parts") -> Authenticator | None:
    """Read the keys of the issuer, and follow them; None if queries need no token."""
    settings = parts.settings.auth
    if not settings.required:
        return None
    keys = await parts.opened.enter_async_context(KeySet(settings))
    parts.background.spawn(keys.follow())
    return Authenticator(JwtVerifier(keys, algorithms=settings.algorithms), claim_rules_of(settings), now=wall_clock)
