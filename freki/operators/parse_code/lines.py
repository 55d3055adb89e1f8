"""The lines of source code."""

import re
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

_LEADS = re.compile(r"[ \t]*(?:@\w|#\[|//|/\*|\*|#(?!include|define|if|endif|else|pragma|!)|--)")
_COMMENT_END = re.compile(r"(?<!/)\*/[ \t]*\Z")
_MAX_COMMENT_LINES = 1000


class Symbol(NamedTuple):
    """A named definition in code."""

    start: int
    """Offset of its first line, or of the comments and decorators directly above."""
    end: int
    """End offset, exclusive."""
    level: int
    """Nesting level; 1 is outermost."""
    name: str


class CodeStructure(NamedTuple):
    """Definitions and seams of code."""

    definitions: tuple[Symbol, ...]
    """Definitions ordered by start, so that nested ones follow the enclosing one."""
    seams: tuple[int, ...]
    """Preferred boundaries, ascending."""


class SourceLines:
    """A text whose lines end in a line feed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))
        # Kept, as a line of minified code has a statement at each of its many places.
        self._indents = [len(line) - len(line.lstrip()) for line in self.lines]

    def line_at(self, offset: int) -> int:
        """Return the number of the line that holds an offset."""
        return bisect_right(self.starts, offset, hi=len(self.lines)) - 1

    def is_first(self, offset: int) -> bool:
        """Return whether only white space precedes it on its line."""
        line = self.line_at(offset)
        return offset - self.starts[line] <= self._indents[line]

    def begin(self, offset: int, floor: int) -> int:
        """Return the start of the code at an offset, including its line and the comments and decorators above.

        Lines that begin before `floor` are not included; if other code precedes it on its line, it starts at the
        offset.
        """
        line = self.line_at(offset)
        if not self.is_first(offset) or self.starts[line] < floor:
            return offset
        return self.starts[self._lead(line, bisect_right(self.starts, floor - 1))]

    def _lead(self, line: int, floor: int) -> int:
        while line > floor:
            opened = self._comment_start(line - 1, floor)
            if opened is None and not _LEADS.match(self.lines[line - 1]):
                break
            line = line - 1 if opened is None else opened
        return line

    def _comment_start(self, last: int, floor: int) -> int | None:
        """Return the first line of the block comment that ends on a line, if it is on lines of its own."""
        if not _COMMENT_END.search(self.lines[last]):
            return None
        for line in range(last, max(floor, last - _MAX_COMMENT_LINES) - 1, -1):
            before, opened, _ = self.lines[line].rpartition("/*")
            if opened:
                return None if before.strip() else line
        return None
