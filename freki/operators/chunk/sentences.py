"""Sentence boundaries."""

import re
from collections.abc import Iterator

_ENDS = re.compile(r"(?<![.!?…])[.!?…]+[\"'»«“”’)\]]*(?=\s)|[。！？]+")
_UNENDING = re.compile(
    r"""
    # German
    abb|abl|abs|abschn|allg|anh|anl|anm|art|aufl|az|bd|bek|betr|bgbl|bsp|buchst|bzw|ca|dipl|dr|ehem|einschl|entspr
    |evtl|fa|ff|fn|fr|geb|gem|gest|ggf|hl|hr|hrsg|inkl|insb|insbes|ing|jh|kap|lfd|lit|max|mind|mio|mrd|nrn?|prof|rdnr
    |rn|rz|sog|st|std|\w*str|tab|tel|tsd|usf|verf|vgl|vorl|zit|ziff|zzgl
    # English
    |al|approx|assn|co|corp|dept|eds?|eq|est|figs?|gen|gov|inc|jr|ltd|mrs?|ms|mt|nos?|op|pp|refs?|rev|sec|sr|vol|vs
    # Months
    |jan|feb|mar|apr|jun|jul|aug|sept?|o[ck]t|nov|de[cz]
    # Initials, Roman numbers, and what has full stops within
    |[^\W\d_]|(?-i:[IVXLC]+)|(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,3}
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ORDINAL = re.compile(r"(?:\d{1,3}\.)*\d{1,3}")
# Words before an ordinal number in German: der 3. Tag, am 17.6., seine 2. Frau.
_BEFORE_ORDINAL = re.compile(r"(?i:am|im|zum|zur|vom|beim|ab|bis|seit|und|oder|das|d(?:ie|e[mnrs]))|[a-zäöüß]+e[mnrs]?")
_LONGEST = 24
_OPENING = "([{\"'„“»«‚–-"


def sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the offsets between start and end at which a sentence begins.

    No sentence ends after an abbreviation, an initial or an ordinal number (`Abs. 2`, `z. B.`, `am 17.6.`), nor before
    a small letter. For German and English; in other languages some boundaries are missed.
    """
    for match in _ENDS.finditer(text, start, end):
        following = match.end()
        while following < end and text[following].isspace():
            following += 1
        if following < end and not text[following].islower() and not _is_abbreviated(text, start, match.start()):
            yield following


def _is_abbreviated(text: str, start: int, stop: int) -> bool:
    if text[stop] != ".":
        return False
    words = [word.lstrip(_OPENING) for word in text[max(start, stop - _LONGEST) : stop].split()]
    if not words:
        return False
    if _ORDINAL.fullmatch(words[-1]):
        # The number of a list item begins its line.
        return len(words) == 1 or bool(_BEFORE_ORDINAL.fullmatch(words[-2]))
    return bool(_UNENDING.fullmatch(words[-1]))
