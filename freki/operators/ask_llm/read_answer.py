"""Reading an answer of a language model as it arrives: thoughts are dropped, sentences and citations told apart."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from freki.operators.ask_llm.compose_answer import NO_ANSWER
from freki.operators.ask_llm.marks import CITED
from freki.schemas.names import record

MOST_CHARS: Final = 8_000
"""Longest answer; one that goes on is stopped."""
MOST_REPEATED: Final = 3
"""So often the same sentence means that the model goes in circles."""
_LONGEST_SENTENCE: Final = 1_200

_OPENS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_CLOSES = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_TAG = re.compile(f"{_OPENS.pattern}|{_CLOSES.pattern}", re.IGNORECASE)
_LONGEST_TAG: Final = len("</thinking>")
_CITATION = re.compile(CITED, re.IGNORECASE)
_NUMBERS = re.compile(
    r"(?:(?:quelle|source|document|dokument)[-\s]?|(?<=[\[【])|(?<=,)\s*)(\d{1,3})(?!\w)", re.IGNORECASE
)
_END = re.compile(rf"(?:[.!?…][\"”“’)»]?(?:\s*{CITED})*(?=\s+[^\s\[【]))|(?:{CITED})(?=\s+[A-ZÄÖÜ])|\n", re.IGNORECASE)
_STARTS = re.compile(r"\s*[\"„“‚»(]?[A-ZÄÖÜ\d§*\-•]")
_ABBREVIATED = re.compile(
    r"(?:^|[\s(„\"])(?:\d{1,4}|[^\W\d_]|Abs|Art|Nr|Bsp|bzw|ca|etc|evtl|ggf|inkl|max|mind|sog|Std|Str|usw|vgl|[zd]\.\s?[BhR]|"
    r"e\.g|i\.e|No|approx|Dr|Prof|Mr|Mrs|St|vs)\.$",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"^[\s>*#•\-–]+|\*\*|__|`|^\s*\d{1,2}[.)]\s+", re.MULTILINE)
_SPACE_BEFORE_MARK = re.compile(r"\s+(?=[.,;:!?](?:\s|$))")


@record
class Piece:
    """Text of a sentence that goes on."""

    text: str


@record
class Restart:
    """What came before were thoughts."""


@record
class Sentence:
    """A whole sentence."""

    text: str
    """Without citations and Markdown."""
    citations: tuple[int, ...]
    """Each once, in order."""
    paragraph: bool
    """Does a line begin with it?"""


@record
class Stop:
    """The rest is not read."""

    no_answer: bool
    """True: the model says that there is no answer; false: it goes in circles, or on and on."""


Found = Piece | Restart | Sentence | Stop


class AnswerReader:
    """Tells sentences apart. Feed pieces as they come, then call `finish`; nothing comes after Stop."""

    def __init__(self) -> None:
        self._raw = ""
        """What may be the beginning of a tag."""
        self._thinks = False
        self._open = ""
        """The sentence that goes on."""
        self._paragraph = True
        self._read = 0
        self._said = Counter[str]()
        self._stopped = False

    def feed(self, piece: str) -> Iterator[Found]:
        """Yield what a piece of text adds."""
        if self._stopped:
            return
        self._raw += piece
        yield from self._visible()

    def finish(self, *, truncated: bool) -> Iterator[Found]:
        """Yield the last sentence; one that was cut is dropped."""
        if self._stopped:
            return
        rest, self._raw = ("" if self._thinks else self._raw), ""
        yield from self._add(rest)
        if not (truncated or self._stopped):
            yield from self._close(self._open)
            self._open = ""

    def _visible(self) -> Iterator[Found]:
        while not self._stopped:
            tag = (_CLOSES if self._thinks else _TAG).search(self._raw)
            if tag is None:
                keep = self._held()
                text, self._raw = self._raw[: len(self._raw) - keep], self._raw[len(self._raw) - keep :]
                if not self._thinks:
                    yield from self._add(text)
                return
            before, self._raw = self._raw[: tag.start()], self._raw[tag.end() :]
            if self._thinks:
                self._thinks = False
            elif tag[0].startswith("</"):
                # Some servers send only the end of the thoughts.
                self._open, self._paragraph, self._said, self._read = "", True, Counter(), 0
                yield Restart()
            else:
                yield from self._add(before)
                self._thinks = True

    def _held(self) -> int:
        """Return how many characters at the end may belong to a tag."""
        start = self._raw.rfind("<", max(0, len(self._raw) - _LONGEST_TAG))
        return len(self._raw) - start if start >= 0 and ">" not in self._raw[start:] else 0

    def _add(self, text: str) -> Iterator[Found]:
        self._read += len(text)
        self._open += text
        shown = text
        while (end := self._end()) is not None and not self._stopped:
            sentence, self._open = self._open[:end], self._open[end:]
            yield from self._close(sentence)
            shown = self._open
        if self._stopped:
            return
        if self._read > MOST_CHARS or len(self._open) > _LONGEST_SENTENCE:
            self._stopped = True
            yield Stop(no_answer=False)
        elif shown.strip() or (shown and self._open.strip()):
            yield Piece(text=shown)

    def _end(self) -> int | None:
        for found in _END.finditer(self._open):
            if found[0] == "\n" or (
                _STARTS.match(self._open, found.end()) and not _ABBREVIATED.search(self._open[: found.end()])
            ):
                return found.end()
        return None

    def _close(self, raw: str) -> Iterator[Found]:
        citations = [int(number) for mark in _CITATION.findall(raw) for number in _NUMBERS.findall(mark)]
        text = " ".join(_MARKUP.sub("", _CITATION.sub("", raw)).split())
        text = _SPACE_BEFORE_MARK.sub("", "".join(each if each.isprintable() else " " for each in text)).strip()
        if NO_ANSWER in text.replace("\\", "") and not self._said:
            self._stopped = True
            yield Stop(no_answer=True)
            return
        if any(letter.isalnum() for letter in text):
            self._said[text] += 1
            if self._said[text] >= MOST_REPEATED:
                self._stopped = True
                yield Stop(no_answer=False)
                return
            yield Sentence(text=text, citations=tuple(dict.fromkeys(citations)), paragraph=self._paragraph)
            self._paragraph = False
        if raw.endswith("\n"):
            self._paragraph = True
