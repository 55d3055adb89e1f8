"""Checks of single fields, for all kinds of queries, and judgements."""

from collections.abc import Collection
from typing import TypeVar

from freki.operators.errors import InvalidQuery
from freki.schemas.names import FORBIDDEN_IN_LINE, ambiguous_tenant_reason

MAX_ID_CHARS = 512
MAX_PRINCIPALS = 256
MAX_PRINCIPAL_CHARS = 128

C = TypeVar("C", bound=Collection[object])


def check_line(field: str, text: str, max_characters: int) -> None:
    """Refuse text that is empty, too long, or not one line of plain text."""
    if not text.strip():
        raise InvalidQuery(f"{field}: it is empty; give it 1 to {max_characters} characters")
    check_plain(field, text, max_characters)


def check_tenant(tenant: str) -> None:
    """Refuse what is the name of no tenant."""
    check_line("tenant", tenant, MAX_ID_CHARS)
    if (reason := ambiguous_tenant_reason(tenant)) is not None:
        raise InvalidQuery(f"tenant: {reason}")


def check_plain(field: str, text: str, max_characters: int) -> None:
    """Refuse text that is too long, or not one line of plain text; it may be empty."""
    if len(text) > max_characters:
        raise InvalidQuery(f"{field}: {len(text)} characters are more than {max_characters}; shorten it")
    if found := FORBIDDEN_IN_LINE.search(text):
        raise InvalidQuery(f"{field}: control character U+{ord(found[0]):04X} at {found.start()}; remove it")


def check_names(field: str, names: Collection[str]) -> None:
    """Refuse too many names of users and groups, and what is none."""
    for name in at_most(field, names, MAX_PRINCIPALS):
        check_line(field, name, MAX_PRINCIPAL_CHARS)


def check_within(field: str, value: float | None, low: float, high: float) -> None:
    """Refuse a number outside its bounds; null is the default."""
    if value is not None and not low <= value <= high:
        raise InvalidQuery(f"{field}: {value} is outside {low}..{high}; give such a value, or null for the default")


def at_most(field: str, values: C, most: int) -> C:
    """Return the values, or refuse them if there are too many."""
    if len(values) > most:
        raise InvalidQuery(f"{field}: {len(values)} are more than {most}; give fewer")
    return values


def check_reply_topic(topic: str | None, allowed: Collection[str], *, otherwise: str) -> None:
    """Refuse a topic that is not allowed for answers; otherwise: where answers go that name none."""
    if topic is not None and topic not in allowed:
        raise InvalidQuery(
            f"reply_to: {topic[:MAX_ID_CHARS]!r} is not on the allow-list; leave it out to be answered on "
            f"the {otherwise}, or have the topic added to FREKI_RETRIEVAL__REPLY_TOPICS"
        )
