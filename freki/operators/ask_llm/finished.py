"""The part of a whole answer that counts: without thoughts, and without what a limit cut off."""

import re

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_REST_OF_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
"""Templates that open the thoughts in the prompt leave only their end in the answer."""
_END = re.compile(r"\w{4}[.!?…][\"”“’)»]?(?=\s)|\n")
"""End of a line or sentence. A shorter word before the mark may be an abbreviation."""


def finished(answer: str, *, truncated: bool) -> str:
    """Return an answer without thoughts; of a truncated one only whole lines and sentences."""
    said = _REST_OF_THOUGHTS.sub("", _THOUGHTS.sub("", answer))
    if not truncated:
        return said
    return said[: max((end.end() for end in _END.finditer(said)), default=0)]
