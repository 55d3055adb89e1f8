"""Keywords of a question, as people type them into a search box."""

import re
from collections.abc import Iterator
from hashlib import blake2b

from freki.operators.analyse_text import term_places

_FEWEST, _MOST = 2, 4
_ASKING = {
    "de": r"wer|was|wann|wo(her|hin)?|wie(so)?|warum|weshalb|welche[mnrs]?|(wie)?viele?",
    "en": r"who|what|when|where|why|how|which|whose|whom|much|many|long|often",
}


def drawn(name: str) -> str:
    """Return what to sort by for a sample that is always the same."""
    return blake2b(name.encode(), digest_size=8).hexdigest()


def keywords_of(question: str, *, language: str) -> str:
    """Return the longest words of a question in their order, two to four by the hash of its text.

    Stop words and words that ask are no keywords; a question of few words has fewer.
    """
    words = list(_words(question, language))
    count = _FEWEST + int(drawn(question), 16) % (_MOST - _FEWEST + 1)
    longest = sorted(range(len(words)), key=lambda place: (-len(words[place]), place))[:count]
    return " ".join(words[place] for place in sorted(longest))


def _words(question: str, language: str) -> Iterator[str]:
    for place in term_places(question, language=language):
        word = question[place.start : place.end]
        if not re.fullmatch(_ASKING.get(language, ""), word, re.IGNORECASE):
            yield word
