"""What of a long question is worth searching with."""

import re


def searchable_text(text: str, *, max_characters: int = 2000) -> str:
    """Cut a long question to what is worth searching with, in reading order; a short one only loses extra spaces.

    Of a long text the sentences that ask something stay, the last ones first, up to half of the room; its beginning
    and its end share the rest. An embedder that reads 512 tokens would drop everything but the beginning.
    Raises ValueError if `max_characters` is below 16.
    """
    if max_characters < _LEAST:
        raise ValueError(f"max_characters must be at least {_LEAST}, got {max_characters}")
    lines = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
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


_LEAST = 16
_MAX_QUESTION = 400
_ENDS = (". ", "! ", "? ", ": ", "\n")


def _questions(lines: str, room: int) -> list[tuple[int, int]]:
    """Find sentences that end in a question mark, the last ones first until the room is used; in reading order."""
    found: list[tuple[int, int]] = []
    mark = len(lines)
    while (mark := lines.rfind("?", 0, mark)) >= 0:
        # A question mark within an address asks nothing.
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
    """Step back to the end of a word, unless one word fills it all."""
    space = max(lines.rfind(" ", 0, limit + 1), lines.rfind("\n", 0, limit + 1))
    return space if space > 0 else limit


def _word_start(lines: str, limit: int) -> int:
    """Step on to the start of a word, unless there is none near."""
    near = re.compile(r"\s").search(lines, max(limit - 1, 0), limit + _MAX_QUESTION)
    return near.end() if limit and near else limit
