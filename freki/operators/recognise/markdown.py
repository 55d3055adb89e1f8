"""Recognition of Markdown in plain text."""

import re
from collections.abc import Iterator
from itertools import pairwise

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_NUMBER_SIGN = re.compile(r" {0,3}#")
_HEADING = re.compile(r"(#{1,6})[ \t]+(?=[^\n]*[^\W_])")
# The first line of a paragraph of configuration, YAML or code; `Hinweis: …` begins a text.
_SETTING = re.compile(
    r"""
    [\w.\-"'\[\]]+[ \t]*= | (?:-[ \t])?["']?[a-z][\w.\-]*["']?:(?:\s|\Z)
    | (?:from|import)[ \t][\w.]+(?:[ \t]+import\b|[ \t]*\Z) | (?:class|def)[ \t]\w+[ \t]*[(:]
    """,
    re.VERBOSE,
)
# It begins at the beginning of a word and gives nothing back, so that the time stays linear.
_PROSE = re.compile(r"(?<![^\W\d_])(?:[^\W\d_]{2,}+[\W\d_]++){4}[^\W\d_]{2}")


def is_markdown(text: str) -> bool:
    """Return whether plain text is Markdown beyond doubt.

    It begins with a heading of number signs, has such headings of at least two levels, none of them more than one level
    below the one before, and a line of at least five words. Outside of fenced code each line that begins with a number
    sign is a heading below a blank line, and no paragraph begins as a setting (`key = value`, `key: value`) or code:
    number signs are comments in configuration, YAML and code, and prompts in transcripts of a shell.
    """
    if not _HEADING.match(text.lstrip()):
        return False
    levels = [0]
    has_prose = False
    for above, line in pairwise(["", *_outside_of_code(text)]):
        begins = not above.strip()
        if _NUMBER_SIGN.match(line):
            heading = _HEADING.match(line)
            if not heading or not begins:
                return False
            levels.append(len(heading[1]))
        elif begins and _SETTING.match(line):
            return False
        else:
            has_prose = has_prose or bool(_PROSE.search(line))
    # The first heading may be of any level.
    return has_prose and len({*levels[1:]}) > 1 and all(below <= level + 1 for level, below in pairwise(levels[1:]))


def _outside_of_code(text: str) -> Iterator[str]:
    """Yield the lines of a text without those inside fences."""
    fence = ""
    for line in text.splitlines():
        if not fence:
            opened = _FENCE.match(line)
            fence = opened[1] if opened else ""
            yield line
        elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
            yield line
