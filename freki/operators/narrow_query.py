"""Put the verified identity in the place of what a query claims."""

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from freki.schemas import EVERYONE, ContextQuery, DocumentQuery
from freki.schemas.identity import Identity, RefusalReason

Q = TypeVar("Q", ContextQuery, DocumentQuery)


def narrow_query(
    query: Q, identity: Identity, *, groups: Collection[str] = (), reply_topic: str | None = None
) -> Q | RefusalReason:
    """Return the query in the name of an identity, or why it is refused.

    groups: further groups of the identity, which its token does not name. reply_topic: the only topic for answers to
    its tenant; None: any that is allowed. A query may narrow what it sees by naming some of the principals; without
    principals it has all of them.
    """
    if query.tenant != identity.tenant:
        return RefusalReason.TENANT
    held = {*identity.principals, *groups}
    if not set(query.principals) <= held | {EVERYONE}:
        return RefusalReason.PRINCIPALS
    if reply_topic is not None and query.reply_to not in (None, reply_topic):
        return RefusalReason.REPLY_TOPIC
    principals = tuple(sorted(set(query.principals) or held))
    return replace(query, principals=principals, reply_to=reply_topic or query.reply_to)
