"""Grouping of dead letters by cause."""

import re
from collections.abc import Iterable

from freki.schemas.operations import LetterGroup, LetterView

_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|„[^“]*“|\b[0-9a-f]{8,}\b|\d+|\S*/\S*")
"""Names, ids, numbers and paths, in which messages of one cause differ."""


def group_letters(letters: Iterable[LetterView]) -> list[LetterGroup]:
    """Return the dead letters by stage, error and kind of message; the group with the latest one first."""
    groups: dict[tuple[str, str, str], list[LetterView]] = {}
    for letter in sorted(letters, key=lambda each: (-each.died_at, each.letter)):
        kind = letter.stage, letter.error, _VARYING.sub("…", letter.message)
        groups.setdefault(kind, []).append(letter)
    return [
        LetterGroup(
            stage=alike[0].stage,
            error=alike[0].error,
            message=alike[0].message,
            first_at=alike[-1].died_at,
            last_at=alike[0].died_at,
            letters=tuple(alike),
        )
        for alike in groups.values()
    ]
