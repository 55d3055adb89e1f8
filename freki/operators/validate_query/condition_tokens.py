"""Words, signs and values of the filter language."""

import re
from enum import Enum, auto
from typing import Final, Literal, NamedTuple

from freki.operators.errors import InvalidQuery

RESERVED = frozenset({"AND", "OR", "NOT", "IN", "STARTS", "WITH", "BETWEEN", "EXISTS"})
_SHOWN_CHARS = 40
_TOKEN = re.compile(
    r"""(?P<key>attributes?\.)(?P<quoted_key>"(?:[^"]|"")*")
    |   (?P<word>[^\s'"(),=<>!^]+)
    |   (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |   (?P<sign><=|>=|<>|!=|\^=|==|[=<>(),])""",
    re.VERBOSE,
)
_SPACE = re.compile(r"\s*")


class Kind(Enum):
    """What a token is."""

    WORD = auto()
    QUOTED = auto()
    SIGN = auto()
    END = auto()


END: Final[Literal[Kind.END]] = Kind.END


class Token(NamedTuple):
    """A part of a condition; text: without quotes; at: its first character, from 1."""

    kind: Kind
    text: str
    at: int

    @property
    def is_word(self) -> bool:
        """Is it a field, a word of the language, or a value without quotes?"""
        return self.kind is Kind.WORD

    @property
    def is_quoted(self) -> bool:
        """Is it a value in quotes?"""
        return self.kind is Kind.QUOTED

    @property
    def is_reserved(self) -> bool:
        """Is it a word of the language?"""
        return self.is_word and self.text.upper() in RESERVED

    @property
    def shown(self) -> str:
        """The token as messages show it."""
        if self.kind is END:
            return "the end"
        text = self.text if len(self.text) <= _SHOWN_CHARS else f"{self.text[:_SHOWN_CHARS]}…"
        return repr(text)

    def says(self, word: str) -> bool:
        """Return whether it is this word of the language, or this sign."""
        return not self.is_quoted and self.text.upper() == word

    def wrong(self, problem: str) -> InvalidQuery:
        """Return the error of a condition that goes wrong here."""
        return InvalidQuery(f"where: at character {self.at}: {problem}")


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a condition, the last one END. Raises InvalidQuery for a sign or quote that has no place."""
    tokens: list[Token] = []
    at = _after_space(text, 0)
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise Token(Kind.SIGN, text[at], at + 1).wrong(_problem(text[at]))
        tokens.append(_token(found))
        at = _after_space(text, found.end())
    return [*tokens, Token(END, "", len(text) + 1)]


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _token(found: re.Match[str]) -> Token:
    at = found.start() + 1
    if found["key"]:
        return Token(Kind.WORD, found["key"] + _unquoted(found["quoted_key"]), at)
    if found["word"]:
        return Token(Kind.WORD, found["word"], at)
    if found["quoted"]:
        return Token(Kind.QUOTED, _unquoted(found["quoted"]), at)
    return Token(Kind.SIGN, found["sign"], at)


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


def _problem(sign: str) -> str:
    if sign in "'\"":
        return f"the quote {sign} is not closed; write it twice within a text"
    return f"{sign!r} has no meaning here; put texts with signs in quotes"
