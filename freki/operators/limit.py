"""Which limit of its tenant a change would exceed."""

from typing import NamedTuple

from freki.schemas.limits import LimitKind, TenantLimits, TenantUse


class ExceededLimit(NamedTuple):
    """A limit that would be exceeded."""

    kind: LimitKind
    most: int
    used: int
    more: int


def exceeded(limits: TenantLimits, used: TenantUse, more: TenantUse) -> ExceededLimit | None:
    """Return the first limit that `used` and `more` together exceed, in the order of `LimitKind`; None if none.

    What takes nothing more of a limit does not exceed it, even if the limit is below what is used already.
    """
    sums = (
        (LimitKind.DOCUMENTS, limits.documents, used.documents, more.documents),
        (LimitKind.CHARACTERS, limits.characters, used.characters, more.characters),
        (LimitKind.PUBLISHED, limits.published_bytes_per_day, used.published_bytes, more.published_bytes),
        (LimitKind.TOKENS, limits.embedded_tokens_per_day, used.tokens, more.tokens),
    )
    for kind, most, before, added in sums:
        if most is not None and added > 0 and before + added > most:
            return ExceededLimit(kind, most, before, added)
    return None
