"""Questions as people type them."""

import numpy as np

_TYPED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_LOWERED, _TRANSCRIBED, _KEYWORDS = 0.15, 0.07, 0.08
"""Shares of the questions that are changed so; all others stay."""
_LONG_WORD = 4
_ENOUGH_WORDS = 4


def typed(question: str, language: str, rng: np.random.Generator) -> str:
    """Change some questions: to lower case, to umlauts in two letters (German), to keywords."""
    chance = rng.random()
    if chance < _LOWERED:
        return lowered(question)
    if chance < _LOWERED + _TRANSCRIBED:
        return question.translate(_TYPED) if language == "de" else question
    if chance < _LOWERED + _TRANSCRIBED + _KEYWORDS:
        return keywords(question)
    return question


def lowered(question: str) -> str:
    """Write in lower case, without the mark at the end."""
    return question.lower().rstrip("?! .") or question


def keywords(question: str) -> str:
    """Keep long words and those with a capital, without the first of these, which asks; short questions stay."""
    words = question.split()
    if len(words) < _ENOUGH_WORDS:
        return question
    telling = [word for word in words if len(word) >= _LONG_WORD or word[:1].isupper()]
    return " ".join(telling[1:] or telling) or question
