"""The searchable part of a long query."""

import re

from freki.operators.analyse_query.exact import BODIES


def searchable_text(text: str, *, max_characters: int = 2000) -> str:
    """Return the searchable part of a query, in reading order; a short query only loses extra spaces.

    One in capitals throughout is searched in small letters, which embedders know better; file numbers, standards and
    identifiers keep theirs. It has a word of 8 letters or more: `DSGVO` alone is a name.
    Of a long text the sentences that are questions are kept, the last ones first, up to half of the limit; its
    beginning and end share the rest. Truncation by the embedder would keep the beginning only.
    Raises ValueError if `max_characters` is below 16.
    """
    if max_characters < _LEAST:
        raise ValueError(f"max_characters must be at least {_LEAST}, got {max_characters}")
    lines = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    if lines.replace("ß", "").isupper() and _LONG_WORD.search(lines):
        lines = _WORD.sub(lambda word: word[0].lower(), lines)
    if len(lines) <= max_characters:
        return lines.replace("\n", " ")
    spans = _questions(lines, max_characters // 2)
    room = max_characters - sum(end - start + 1 for start, end in spans)
    head, tail = room // 2, len(lines) - (room - room // 2) + 1
    spans = [
        (0, _word_end(lines, head)),
        *((start, end) for start, end in spans if head <= start and end <= tail),
        (_word_start(lines, tail), len(lines)),
    ]
    return " ".join(" ".join(lines[start:end].split()) for start, end in spans if end > start)


_WORD = re.compile(rf"(?<![\w-])(?!(?:{BODIES})\b|[^\W\d_]{{1,3}}\s\d)[^\W\d_]+(?![\w-])")
"""A word by itself, and no part of a file number, a standard or an identifier."""
_LONG_WORD = re.compile(r"(?<![\w-])[^\W\d_]{8}")
"""Beginning of a word that is too long for an abbreviation."""
_LEAST = 16
_MAX_QUESTION = 400
_ENDS = (". ", "! ", "? ", ": ", "\n")


def _questions(lines: str, room: int) -> list[tuple[int, int]]:
    """Return the last sentences that end in a question mark and fit the room, in reading order."""
    found: list[tuple[int, int]] = []
    mark = len(lines)
    while (mark := lines.rfind("?", 0, mark)) >= 0:
        # Not a question mark within a URL.
        if not lines[mark + 1 : mark + 2].isspace() and mark + 1 < len(lines):
            continue
        earliest = max(0, mark - _MAX_QUESTION)
        ends = [place + len(end) for end in _ENDS if (place := lines.rfind(end, earliest, mark)) >= 0]
        start = max(ends, default=_word_start(lines, earliest))
        room -= mark + 2 - start
        if room < 0:
            break
        found.append((start, mark + 1))
        mark = start
    return found[::-1]


def _word_end(lines: str, limit: int) -> int:
    """Return the last word end up to the limit, or the limit within a single long word."""
    space = max(lines.rfind(" ", 0, limit + 1), lines.rfind("\n", 0, limit + 1))
    return space if space > 0 else limit


def _word_start(lines: str, limit: int) -> int:
    """Return the next word start from the limit on, or the limit if there is none near."""
    near = re.compile(r"\s").search(lines, max(limit - 1, 0), limit + _MAX_QUESTION)
    return near.end() if limit and near else limit
