"""Judge the claims of a token whose signature is verified."""

from collections.abc import Mapping, Sequence
from typing import Any

from freki.schemas.identity import Identity, RefusalReason
from freki.schemas.names import FORBIDDEN_IN_LINE, LARGEST_INTEGER, TenantId, Timestamp, ambiguous_tenant_reason, record

MAX_NAME_CHARS = 128
"""Longest name of a user or group, in characters, as in queries."""
MAX_TENANT_CHARS = 512


@record
class ClaimRules:
    """What a token must claim, and where it names who asks."""

    issuer: str
    audience: str
    leeway_s: float
    """Difference of clocks that is tolerated, in seconds."""
    max_age_s: float | None
    """Longest time since `iat`, in seconds; None: `exp` alone counts."""
    tenant: str
    """Name of a claim, or a JSON pointer such as /realm_access/roles; so are the next two."""
    principal: str
    groups: str


def check_claims(claims: Mapping[str, Any], rules: ClaimRules, now: Timestamp) -> Identity | RefusalReason:
    """Return who asks, or why the token is refused; now: when it is judged.

    `exp` is required: RFC 7519 leaves it optional, and a token without end could not be taken back.
    """
    now_s = now / 1000
    if claims.get("iss") != rules.issuer:
        return RefusalReason.ISSUER
    audience = claims.get("aud")
    if rules.audience not in (audience if isinstance(audience, list) else [audience]):
        return RefusalReason.AUDIENCE
    return _check_times(claims, rules, now_s) or _identity(claims, rules)


def _check_times(claims: Mapping[str, Any], rules: ClaimRules, now_s: float) -> RefusalReason | None:
    times = {name: claims.get(name) for name in ("exp", "nbf", "iat")}
    if any(value is not None and not _is_time(value) for value in times.values()) or times["exp"] is None:
        return RefusalReason.MALFORMED
    if times["exp"] + rules.leeway_s <= now_s:
        return RefusalReason.EXPIRED
    if any(value is not None and value - rules.leeway_s > now_s for value in (times["nbf"], times["iat"])):
        return RefusalReason.NOT_YET_VALID
    too_old = rules.max_age_s is not None and (
        times["iat"] is None or times["iat"] + rules.max_age_s + rules.leeway_s <= now_s
    )
    return RefusalReason.TOO_OLD if too_old else None


def _identity(claims: Mapping[str, Any], rules: ClaimRules) -> Identity | RefusalReason:
    tenant, subject = _at(claims, rules.tenant), _at(claims, rules.principal)
    if (
        not _is_name(tenant, MAX_TENANT_CHARS)
        or ambiguous_tenant_reason(tenant)
        or not _is_name(subject, MAX_NAME_CHARS)
    ):
        return RefusalReason.INCOMPLETE
    groups = _at(claims, rules.groups)
    named: Sequence[Any] = [] if groups is None else groups if isinstance(groups, list) else [groups]
    token_id = claims.get("jti")
    if not all(_is_name(each, MAX_NAME_CHARS) for each in named) or not isinstance(token_id, str | None):
        return RefusalReason.MALFORMED
    principals = tuple(sorted({subject, *named}))
    return Identity(tenant=TenantId(tenant), principals=principals, subject=subject, token_id=token_id)


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # Integers of JSON may be too large for a float.
    return -LARGEST_INTEGER <= value <= LARGEST_INTEGER


def _is_name(value: object, max_chars: int) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value.strip()) <= len(value) <= max_chars
        and not FORBIDDEN_IN_LINE.search(value)
    )


def _at(claims: Mapping[str, Any], place: str) -> Any:  # noqa: ANN401 - of any kind
    """Return the claim of a name or at a JSON pointer; None if there is none."""
    if not place.startswith("/"):
        return claims.get(place)
    value: Any = claims
    for step in place[1:].split("/"):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step.replace("~1", "/").replace("~0", "~"))
    return value
