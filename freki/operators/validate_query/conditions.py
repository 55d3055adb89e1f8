"""Parse the filter language of docs/queries.md.

    condition  = all { OR all }
    all        = part { AND part }
    part       = NOT part | "(" condition ")" | comparison
    comparison = field ( = | != | < | <= | > | >= ) value
               | field [NOT] IN "(" value { "," value } ")"
               | field [NOT] STARTS WITH value  |  field ^= value
               | field [NOT] BETWEEN value AND value
               | field EXISTS
    field      = document_id | name | media_type | language | kind | attribute.KEY | attribute."any key"

A value in quotes is a text; one without is a number, a time or a text, by its form. Words of the language may have any
case.
"""

from collections.abc import Callable

from freki.operators.errors import InvalidQuery
from freki.operators.validate_query.condition_tokens import END, Token, tokens_of
from freki.operators.validate_query.fields import MAX_PRINCIPAL_CHARS
from freki.schemas import ATTRIBUTE_PREFIX, FILTER_FIELDS, ChunkKind
from freki.schemas.attribute_values import TimeSpan, number_of, time_of
from freki.schemas.conditions import AllOf, AnyOf, Comparator, Comparison, Condition, Negation
from freki.schemas.names import FORBIDDEN_IN_LINE

MAX_CONDITION_CHARS = 8_192
MAX_COMPARISONS = 256
MAX_DEPTH = 16
MAX_VALUE_CHARS = 1_024
MAX_KEY_CHARS = MAX_PRINCIPAL_CHARS

_SIGNS = {
    "=": Comparator.EQUAL,
    "==": Comparator.EQUAL,
    "<": Comparator.LESS,
    "<=": Comparator.AT_MOST,
    ">": Comparator.GREATER,
    ">=": Comparator.AT_LEAST,
    "^=": Comparator.STARTS_WITH,
}
_UNEQUAL = ("!=", "<>")
_RANGES = frozenset({Comparator.LESS, Comparator.AT_MOST, Comparator.GREATER, Comparator.AT_LEAST})
_SINGULAR = "attribute."
_TIMES = frozenset({"occurred_at", "searchable_at", "recorded_at", "received_at", "version", "date"})


def parse_condition(text: str) -> Condition:
    """Parse a condition. Raises InvalidQuery, with the character where it goes wrong (counted from 1) and the fix."""
    if len(text) > MAX_CONDITION_CHARS:
        raise InvalidQuery(f"where: {len(text)} characters are more than {MAX_CONDITION_CHARS}; shorten it")
    return _Parser(tokens_of(text)).whole()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._comparisons = 0
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._any()
        if self._next.kind is not END:
            hint = "; put a text with spaces in quotes" if self._next.is_word else ""
            raise self._next.wrong(f"AND, OR or the end was expected, not {self._next.shown}{hint}")
        return condition

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _accept(self, *words: str) -> bool:
        """Take these words or this sign if they are next."""
        ahead = self._tokens[self._at : self._at + len(words)]
        if len(ahead) == len(words) and all(token.says(word) for token, word in zip(ahead, words, strict=True)):
            self._at += len(words)
            return True
        return False

    def _demand(self, word: str) -> None:
        if not self._accept(word):
            raise self._next.wrong(f"{word} was expected, not {self._next.shown}")

    def _any(self) -> Condition:
        return self._joined(self._all, "OR", AnyOf)

    def _all(self) -> Condition:
        return self._joined(self._part, "AND", AllOf)

    def _joined(self, inner: Callable[[], Condition], word: str, kind: type[AllOf] | type[AnyOf]) -> Condition:
        parts = [inner()]
        while self._accept(word):
            parts.append(inner())
        return parts[0] if len(parts) == 1 else kind(of=tuple(parts))

    def _part(self) -> Condition:
        start = self._next
        if self._accept("NOT"):
            return self._nested(start, lambda: Negation(of=self._part()))
        if self._accept("("):
            inner = self._nested(start, self._any)
            self._demand(")")
            return inner
        return self._comparison()

    def _nested(self, start: Token, inner: Callable[[], Condition]) -> Condition:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise start.wrong(f"conditions stand in each other more than {MAX_DEPTH} deep; simplify it")
        condition = inner()
        self._depth -= 1
        return condition

    def _comparison(self) -> Condition:
        field = _field(self._take())
        if self._accept("NOT"):
            return Negation(of=self._by_word(field, after_not=True))
        sign = self._next
        if sign.text in _UNEQUAL and not sign.is_quoted:
            self._take()
            return Negation(of=self._compared(field, Comparator.EQUAL, self._value()))
        if sign.text in _SIGNS and not sign.is_quoted:
            self._take()
            return self._compared(field, _SIGNS[sign.text], self._value())
        return self._by_word(field, after_not=False)

    def _by_word(self, field: str, *, after_not: bool) -> Condition:
        sign = self._next
        if self._accept("IN"):
            return self._listed(field)
        if self._accept("STARTS", "WITH"):
            return self._compared(field, Comparator.STARTS_WITH, self._value())
        if self._accept("BETWEEN"):
            low = self._compared(field, Comparator.AT_LEAST, self._value())
            self._demand("AND")
            return AllOf(of=(low, self._compared(field, Comparator.AT_MOST, self._value())))
        if not after_not and self._accept("EXISTS"):
            if field in FILTER_FIELDS:
                raise sign.wrong(f"every document has {field}; EXISTS is for attributes")
            return Comparison(field=field, comparator=Comparator.EXISTS, value=None)
        expected = (
            "IN, STARTS WITH or BETWEEN" if after_not else "=, !=, <, <=, >, >=, IN, STARTS WITH, BETWEEN or EXISTS"
        )
        raise sign.wrong(f"{expected} was expected, not {sign.shown}")

    def _listed(self, field: str) -> Condition:
        self._demand("(")
        found = [self._compared(field, Comparator.EQUAL, self._value())]
        while self._accept(","):
            found.append(self._compared(field, Comparator.EQUAL, self._value()))
        if not self._accept(")"):
            raise self._next.wrong(f"a comma or ) was expected, not {self._next.shown}")
        return found[0] if len(found) == 1 else AnyOf(of=tuple(found))

    def _value(self) -> Token:
        token = self._take()
        if token.kind is END or not (token.is_quoted or token.is_word):
            raise token.wrong(f"a value was expected, not {token.shown}")
        if token.is_reserved:
            raise token.wrong(f"a value was expected, not {token.shown}; put it in quotes if it is one")
        if len(token.text) > MAX_VALUE_CHARS:
            raise token.wrong(f"the value has {len(token.text)} characters, more than {MAX_VALUE_CHARS}; shorten it")
        if found := FORBIDDEN_IN_LINE.search(token.text):
            raise token.wrong(f"the value holds the control character U+{ord(found[0]):04X}; remove it")
        return token

    def _compared(self, field: str, comparator: Comparator, given: Token) -> Comparison:
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise given.wrong(f"there are more than {MAX_COMPARISONS} comparisons; ask for less at once")
        value: str | float | TimeSpan = given.text
        is_typed = not given.is_quoted and field not in FILTER_FIELDS and comparator is not Comparator.STARTS_WITH
        if is_typed:
            number = number_of(given.text)
            value = number if number is not None else time_of(given.text) or given.text
        if comparator in _RANGES and isinstance(value, str):
            raise given.wrong(_no_range(field, comparator, given))
        if field == "kind" and comparator is Comparator.EQUAL and given.text not in set(ChunkKind):
            raise given.wrong(f"{given.shown} is no kind of chunk; use {', '.join(ChunkKind)}")
        return Comparison(field=field, comparator=comparator, value=value)


def _no_range(field: str, comparator: Comparator, given: Token) -> str:
    if field in FILTER_FIELDS:
        return f"{field} is a text, which {comparator} does not compare; use =, IN or STARTS WITH"
    compared = "numbers such as 12.5 and dates such as 2026-01-31, without quotes"
    return f"{comparator} compares {compared}; {given.shown} is neither"


def _field(token: Token) -> str:
    if token.kind is END or not token.is_word or token.is_reserved:
        raise token.wrong(f"a field was expected, not {token.shown}; {_fields()}")
    name = token.text
    for prefix in (ATTRIBUTE_PREFIX, _SINGULAR):
        key = name.removeprefix(prefix)
        if key != name:
            if not key.strip() or len(key) > MAX_KEY_CHARS or FORBIDDEN_IN_LINE.search(key):
                raise token.wrong(f"the key of an attribute has 1 to {MAX_KEY_CHARS} characters of one line")
            return f"{ATTRIBUTE_PREFIX}{key}"
    if name in FILTER_FIELDS:
        return name
    hint = "; versions of a document share rows, so publish a date as an attribute" if name in _TIMES else ""
    raise token.wrong(f"{token.shown} cannot be filtered on{hint}; {_fields()}")


def _fields() -> str:
    return f"use {', '.join(FILTER_FIELDS)} or {_SINGULAR}KEY"
