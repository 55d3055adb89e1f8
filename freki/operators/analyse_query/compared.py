"""Two things that a question compares: an answer is about both."""

import re

_ARTICLE = r"(?:(?:d(?:er|ie|as|em|en|es)|eine?[mnrs]?|the|an?)\s+)?"
_THING = rf"{_ARTICLE}(?P<{{}}>[^\W\d_][\w-]*)"
# Before other words it is an adjective: `die alte und die neue Fassung`.
_BEHIND = (
    r"(?=\W*$|[^\w\s]|\s+(?:als|and|at|bei|beim|bezüglich|by|for|für|from|gemäß|hinsichtlich|im|in|is|laut|mit|nach"
    r"|of|on|regarding|sind|und|under|voneinander|with|when|wenn|zueinander)\b)"
)
_ONE, _OTHER = _THING.format("one"), _THING.format("other") + _BEHIND
_COMPARED = (
    re.compile(rf"\bvergleich\w*\s+(?:(?:zwischen|von)\s+)?{_ONE}\s+(?:und|mit)\s+{_OTHER}", re.IGNORECASE),
    re.compile(rf"\bunterschied\w*\s+(?:zwischen|von)\s+{_ONE}\s+(?:und|zu)\s+{_OTHER}", re.IGNORECASE),
    re.compile(rf"\bunterscheide[nt]\s+sich\s+{_ONE}\s+(?:und|von)\s+{_OTHER}", re.IGNORECASE),
    re.compile(rf"\bcompar\w+\s+(?:between\s+|of\s+)?{_ONE}\s+(?:and|with|to)\s+{_OTHER}", re.IGNORECASE),
    re.compile(rf"\bdifferences?\s+between\s+{_ONE}\s+and\s+{_OTHER}", re.IGNORECASE),
    # At the beginning of a word, so that a long one takes linear time.
    re.compile(rf"(?<![\w-]){_ONE}\s+(?:vs\.?|versus)\s+{_OTHER}", re.IGNORECASE),
)


def compared(text: str) -> tuple[str, ...]:
    """Return the two things, of a word each, that a question in German or English compares; else nothing."""
    for pattern in _COMPARED:
        if found := pattern.search(text):
            return found["one"], found["other"]
    return ()
