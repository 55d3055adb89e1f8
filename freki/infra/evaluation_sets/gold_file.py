"""A YAML file of gold questions that is edited in place: all else in it stays as it was written."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import yaml

from freki.infra.durable_files import write_atomically
from freki.infra.evaluation_sets.gold import GoldQuestion, GoldSet, parse_gold, parse_question
from freki.infra.text_files import read_text
from freki.schemas.errors import Rejected
from freki.schemas.evaluation import ReviewState

HEADER = """\
# Questions proposed by `freki questions make`. Read them with `freki questions review`, or here: review is open, kept
# or dropped. `freki tune` uses part tuning, `freki eval` part test. Comments and changes by hand stay.
"""
_WIDTH = 116


class GoldFile:
    """Gold questions of a file, in its order."""

    def __init__(self, path: Path, text: str, *, stored: str | None) -> None:
        """Parse the text of a file; stored: what the file holds now, None: it does not exist.

        Raises Rejected, with the line, for what is no set of gold questions in block style.
        """
        # A link stays a link.
        self.path = path
        self._target = path.resolve()
        self._stored = stored
        gold, node = parse_gold(text, path)
        self.gold: GoldSet = gold
        lines = text.splitlines(keepends=True)
        starts = [item.start_mark.line for item in node.value]
        is_block = not node.flow_style and len(set(starts)) == len(starts)
        if not is_block:
            raise Rejected(f"{path}, line {starts[0] + 1}: write each question on lines of its own, after a dash")
        end = node.end_mark.line if node.end_mark.column == 0 else len(lines)
        edges = [*starts, max(end, starts[-1] + 1)]
        self._head = "".join(lines[: starts[0]])
        self._items = ["".join(lines[start:stop]) for start, stop in pairwise(edges)]
        self._tail = "".join(lines[edges[-1] :])
        for item, start in zip(self._items, starts, strict=True):
            if not _stands_alone(item):
                raise Rejected(f"{path}, line {start + 1}: write out what *alias or << stands for in this question")
        self._indent = " " * node.start_mark.column
        self.questions = [
            parse_question(given, f"{path}, line {start + 1}")
            for given, start in zip(gold.questions, starts, strict=True)
        ]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file. Raises Rejected where it is missing, or no set of gold questions."""
        text = read_text(path)
        return cls(path, text, stored=text)

    @classmethod
    def create(cls, path: Path, sources: Sequence[Path], questions: Sequence[Mapping[str, Any]]) -> Self:
        """Return a new file of at least one question, not saved yet; sources: relative to the folder of the file."""
        corpus = [source.as_posix() for source in sources]
        given = {"corpus": corpus[0] if len(corpus) == 1 else corpus}
        return cls(path, f"{HEADER}{_dumped(given)}questions:\n{_dumped(list(questions))}", stored=None)

    @property
    def text(self) -> str:
        """The file as it would be saved."""
        return f"{self._head}{''.join(self._items)}{self._tail}"

    def append(self, questions: Sequence[Mapping[str, Any]]) -> None:
        """Add questions after the last one."""
        if self._items[-1][-1:] != "\n":
            self._items[-1] += "\n"
        for given in questions:
            lines = _dumped([given]).splitlines(keepends=True)
            self._items.append("".join(f"{self._indent}{line}" for line in lines))
            self.questions.append(GoldQuestion.model_validate(given))

    def decide(self, place: int, review: ReviewState, *, wording: str | None = None) -> None:
        """Set the review, and the wording if given, of the question at a place, which must have a review."""
        values = {"review": review.value} | ({} if wording is None else {"question": _quoted(wording)})
        text = self._items[place]
        (mapping,) = yaml.compose(text, yaml.SafeLoader).value
        found = sorted(
            ((key.value, value) for key, value in mapping.value if key.value in values),
            key=lambda each: -each[1].start_mark.index,
        )
        for name, node in found:
            old = text[node.start_mark.index : node.end_mark.index]
            # The value of a block scalar ends with its line.
            rest = old[len(old.rstrip()) :]
            text = f"{text[: node.start_mark.index]}{values[name]}{rest}{text[node.end_mark.index :]}"
        self._items[place] = text
        self.questions[place] = self.questions[place].model_copy(
            update={"review": review} | ({} if wording is None else {"question": wording})
        )

    def save(self) -> None:
        """Write the file by renaming a complete one. Raises Rejected if it was changed since it was read or saved."""
        try:
            # Read as `read_text` does: with line ends as they are, and without a byte order mark.
            content = self._target.read_bytes() if self._target.exists() else None
            now = None if content is None else content.decode("utf-8-sig", errors="replace")
            if now != self._stored:
                raise Rejected(f"{self.path} was changed meanwhile by another program: start again; nothing is lost")
            self._target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._target, lambda path: path.write_text(self.text, encoding="utf-8", newline=""))
        except OSError as error:
            raise Rejected(f"{self.path}: {error.strerror}") from error
        self._stored = self.text


def _stands_alone(item: str) -> bool:
    """Return whether a question can be edited by itself: all that it says stands in it."""
    return not any(
        isinstance(event, yaml.AliasEvent)
        or (isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == "<<")
        for event in yaml.parse(item, yaml.SafeLoader)
    )


def _dumped(value: object) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=_WIDTH, default_flow_style=False
    )
    return text


class _Dumper(yaml.SafeDumper):  # type: ignore[misc] # yaml has no types
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of the library
        """Write equal lists out: each question is edited by itself."""
        return True


def _quoted(text: str) -> str:
    """Return a text as a YAML value on one line, in quotes: a plain one would need other rules in braces."""
    dumped: str = yaml.safe_dump(text, allow_unicode=True, width=float("inf"), default_style='"')
    return dumped.removesuffix("\n")
