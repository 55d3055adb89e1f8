"""Queries as the beginning of their answer."""

import re
from collections.abc import Mapping

_ADJECTIVES_DE = "lange?|hoch|viele?|gro(?:ß|ss)|teuer|weit|alt|schwer|breit|tief|oft|häufig|spät|früh"
_ASKING_DE = rf"was|wie(?: (?:{_ADJECTIVES_DE}))?|wann|wo|warum|weshalb|wieso|womit|wodurch|wofür"
_ADJECTIVES_EN = "long|much|many|high|big|large|old|far|often|late|early|wide|deep|heavy|expensive"
_ARE_EN = "is|are|was|were|can|may|must|should|will|would"

_RULES: Mapping[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    language: tuple((re.compile(rf"{pattern}\W*", re.IGNORECASE), form) for pattern, form in rules)
    for language, rules in {
        "de": (
            (rf"wie (?:{_ADJECTIVES_DE}) (?:ist|beträgt) (.+?)", r"\1 beträgt"),
            (rf"wie (?:{_ADJECTIVES_DE}) (?:sind|betragen) (.+?)", r"\1 betragen"),
            (
                rf"(?:{_ASKING_DE}) (\w+) (.+?)",
                r"\2 \1",
            ),
            (r"wer (\w+ .+?)", r"\1"),
        ),
        "en": (
            (rf"how (?:{_ADJECTIVES_EN}) (is|are) (.+?)", r"\2 \1"),
            (rf"(?:how(?: (?:{_ADJECTIVES_EN}))?|what|when|where|why) (?:do|does|did) (.+?)", r"\1"),
            (rf"(?:what|when|where|why|how) ({_ARE_EN}) (.+?)", r"\2 \1"),
            (r"who (\w+ .+?)", r"\1"),
        ),
    }.items()
}


def as_statement(question: str, *, language: str) -> str:
    """Turn `Wie lange ist die Kündigungsfrist?` into `Die Kündigungsfrist beträgt`; empty where no rule matches.

    For a single sentence in German or English that begins with its question word.
    """
    sentence = " ".join(question.split())
    for pattern, form in _RULES.get(language, ()):
        if found := pattern.fullmatch(sentence):
            statement = found.expand(form)
            return statement[:1].upper() + statement[1:]
    return ""
