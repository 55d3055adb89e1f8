"""Who asks: what a verified token says, and why a query is refused."""

from enum import StrEnum

from freki.schemas.names import QueryId, TenantId, record


class RefusalReason(StrEnum):
    """Why a query was refused; for metrics and audit, not for whoever asked, who is `told` less."""

    NO_TOKEN = "NO_TOKEN"  # noqa: S105 - no secret, nor are those below
    OVERSIZED = "OVERSIZED"
    MALFORMED = "MALFORMED"
    """It is no signed JSON Web Token, or a claim has a value of another kind."""
    ALGORITHM = "ALGORITHM"
    """Its algorithm is not allowed, or not one of its key."""
    UNKNOWN_KEY = "UNKNOWN_KEY"
    SIGNATURE = "SIGNATURE"
    ISSUER = "ISSUER"
    AUDIENCE = "AUDIENCE"
    EXPIRED = "EXPIRED"
    NOT_YET_VALID = "NOT_YET_VALID"
    TOO_OLD = "TOO_OLD"
    """It was issued longer ago than is allowed, or does not say when."""
    INCOMPLETE = "INCOMPLETE"
    """It names no tenant or no principal, or none that a document or topic may have."""
    TENANT = "TENANT"
    """The query names another tenant."""
    PRINCIPALS = "PRINCIPALS"
    """The query names principals that are not of the token."""
    REPLY_TOPIC = "REPLY_TOPIC"
    """The query names another topic for its answer than that of the tenant."""
    QUERY_ID = "QUERY_ID"
    """With a replay window: the query does not have the id of its token, as its id, key and partition."""
    REPLAYED = "REPLAYED"
    """The token came before, with another query."""
    UNSUPPORTED = "UNSUPPORTED"
    """A document query, where tenants have topics of their own or tokens serve one query only."""

    @property
    def message(self) -> str:
        """What whoever asked is told."""
        return _MESSAGES.get(self, "its token is not accepted")


_MESSAGES = {
    RefusalReason.NO_TOKEN: "it has no token",
    RefusalReason.EXPIRED: "its token has expired",
    RefusalReason.TOO_OLD: "its token has expired",
    RefusalReason.TENANT: "it asks for more than its token allows",
    RefusalReason.PRINCIPALS: "it asks for more than its token allows",
    RefusalReason.REPLY_TOPIC: "it asks for more than its token allows",
    RefusalReason.QUERY_ID: "its query id is not that of its token",
    RefusalReason.REPLAYED: "its token was used before",
    RefusalReason.UNSUPPORTED: (
        "document queries are answered only without FREKI_AUTH__REPLY_TOPIC and FREKI_AUTH__REPLAY_WINDOW_S"
    ),
}


@record
class Identity:
    """Who asks, as a token says."""

    tenant: TenantId
    principals: tuple[str, ...]
    """Users and groups, in order and each once."""
    subject: str
    """The user among them."""
    token_id: str | None
    """The claim `jti`."""

    @property
    def names(self) -> frozenset[str]:
        """Users and groups as settings name them, `tenant/group`: groups of two tenants may have one name."""
        return frozenset(f"{self.tenant}/{principal}" for principal in self.principals)


@record
class Refusal:
    """A refused query, without its token and its text."""

    reason: RefusalReason
    query_id: QueryId
    identity: Identity | None
    """Who asked, where the token was in order and the query asked for more than it allows."""
