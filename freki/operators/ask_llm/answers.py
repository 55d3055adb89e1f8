"""Parsing of the answers of a language model.

Answers are untrusted, since documents can influence the model: at most short lines of plain text are accepted.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from freki.operators.ask_llm.finished import finished
from freki.operators.ask_llm.runs import repeated_share

SUMMARY_CHARS = 480
_LEAST_CHARS = 20
_RAMBLES = 3
"""Factor on the requested length above which an answer is discarded instead of truncated."""
_REPEATED = 2
"""Number of chunks of an answer that may have the same line."""
_CIRCULAR_SHARE = 0.15
"""Share of repeated rows of words from which a line goes in circles, as small models do."""
_LETTERS_SHARE = 0.5
"""Minimum share of letters among the characters of a line: others count or draw."""

_NUMBERED = re.compile(
    r"""^[ \t>*#\-]*(?:(?:chunk|abschnitt|nummer|number)\s*)?   # what models put before a number
    [\[("*]*(\d{1,2})[\])"*]*\s*[:.)]\s*""",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_NUMBER = re.compile(r"\d{1,4}")
_TAG = re.compile(r"</?[a-zA-Z!?][^<>]{0,200}>")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_ADDRESS = re.compile(r"\b(?:https?|ftp)://\S+|\bdata:\S+", re.IGNORECASE)
_MARKS = re.compile(r"[`*#|\[\]{}<>\\]+|_{2,}|(?<!\w)_|_(?!\w)")
_LAST_LATIN = "\u024f"
_QUOTES = "\"'„“”‚‘’«»"
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s")


def read_contexts(answer: str, *, count: int, max_chars: int, truncated: bool = False) -> list[str | None]:
    """Return the line for each of `count` chunks, at most `max_chars` long; None where there is no valid one.

    Accepts lines `number: text`, or a JSON object or list of texts. Of repeated numbers one counts; numbers out of
    range are ignored. `_prose` defines valid lines. Of a truncated answer the unfinished sentence is dropped.
    """
    found = dict(_numbered(finished(answer, truncated=truncated), count))
    numbers = range(1, count + 1)
    return _unrepeated([_prose(found[number], max_chars) if number in found else None for number in numbers])


def numbered_lines(answer: str, *, count: int, least: int, most: int, truncated: bool = False) -> list[str | None]:
    """Return the lines with the numbers 1 to `count`, of `least` to `most` characters; None where there is none."""
    found = dict(_marked(finished(answer, truncated=truncated)))
    return [
        plain_line(found[number], most=most, least=least) if number in found else None for number in range(1, count + 1)
    ]


def read_summary(answer: str, *, truncated: bool = False) -> str | None:
    """Return a summary on one line of at most 480 characters; None where there is no valid one."""
    return _prose(finished(answer, truncated=truncated), SUMMARY_CHARS)


def is_latin(text: str) -> bool:
    """Return whether at least half of the letters are Latin ones; true without any."""
    letters = [letter for letter in text if letter.isalpha()]
    return 2 * sum(letter <= _LAST_LATIN for letter in letters) >= len(letters)


def _prose(text: str, most: int) -> str | None:
    """Return a plain line that is mostly letters; None where it counts or draws."""
    line = plain_line(text, most=most)
    return line if line is not None and sum(map(str.isalpha, line)) >= _LETTERS_SHARE * len(line) else None


def _unrepeated(lines: Sequence[str | None]) -> list[str | None]:
    """Drop lines that say the same of too many chunks: they situate none."""
    said = Counter(lines)
    return [None if said[line] > _REPEATED else line for line in lines]


def _numbered(answer: str, count: int) -> Iterator[tuple[int, str]]:
    """Yield numbers and texts; of repeated numbers the last one counts."""
    entries = _marked(answer)
    if not entries and count == 1:
        entries = [(1, answer)]
    yield from reversed(entries)


def _marked(answer: str) -> list[tuple[int, str]]:
    entries = _of_json(answer)
    if entries is not None:
        return entries
    marks = list(_NUMBERED.finditer(answer))
    ends = [mark.start() for mark in marks[1:]] + [len(answer)]
    # What follows an empty line belongs to none of them.
    texts = (answer[mark.end() : end].strip().partition("\n\n")[0] for mark, end in zip(marks, ends, strict=False))
    return [(int(mark[1]), text) for mark, text in zip(marks, texts, strict=True)]


def _of_json(answer: str) -> list[tuple[int, str]] | None:
    """Parse a JSON object of numbers and texts, or a list of texts; None for anything else."""
    start = re.search(r"[\[{]\s*\"", answer)
    end = max(answer.rfind("]"), answer.rfind("}"))
    if start is None or end < start.start():
        return None
    try:
        value = json.loads(answer[start.start() : end + 1])
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        value = {str(number): text for number, text in enumerate(value, start=1)}
    return [(int(key), text) for key, text in value.items() if _NUMBER.fullmatch(key) and isinstance(text, str)]


def plain_line(text: str, *, most: int, least: int = _LEAST_CHARS) -> str | None:
    """Return plain text on one line, cut at the end of a sentence or word; None if too short, far too long or circular.

    Removes tags, Markdown, URLs, enclosing quotes and non-printing characters.
    """
    text = _LINK.sub(r"\1", _TAG.sub(" ", text))
    text = _MARKS.sub(" ", _ADDRESS.sub(" ", text))
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    line = line.strip(_QUOTES + " -–—") if line[:1] in _QUOTES and line[-1:] in _QUOTES else line.strip(" -–—")
    if not least <= len(line) <= _RAMBLES * most:
        return None
    if repeated_share(line) > _CIRCULAR_SHARE:
        return None
    return line if len(line) <= most else _cut(line, most)


def _cut(line: str, most: int) -> str:
    ends = [match.start() for match in _SENTENCE_END.finditer(line, 0, most + 1)]
    if ends and ends[-1] >= most // 2:
        return line[: ends[-1]]
    start = line[: most - 1]
    return f"{start.rpartition(' ')[0] or start}…"
