"""What kind of answer a question wants, and which of its words to search with."""

import re
import unicodedata
from typing import NamedTuple

from freki.schemas import ChunkLevel, QueryType

MAX_KEYWORDS = 3

_DETAILS = (ChunkLevel.SECTION, ChunkLevel.PARAGRAPH)
_ALL = (ChunkLevel.DOCUMENT, *_DETAILS)


class QueryReading(NamedTuple):
    """What the wording of a question tells."""

    query_type: QueryType
    keyword: bool
    """At most three words, and no question: BM25 knows better than the vectors what they mean."""
    levels: tuple[int, ...]
    """Chunk levels that hold such answers."""


def _phrases(*patterns: str) -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(patterns) + r")\b")


# Where someone worked, studied or lived: one question, one answer for each station of a life.
_STATIONS_DE = (
    r"(?:wo|für wen|bei wem|(?:für|bei|an) welche[mnr]? \w+)\b.{0,80}\b"
    r"(?:gearbeitet|beschäftigt|angestellt|tätig|studiert|gelebt|gewohnt|gelernt|unterrichtet|gelehrt|gespielt)"
)
_STATIONS_EN = (
    r"(?:where|whom|which \w+)\b.{0,80}\b"
    r"(?:worked|work for|work at|work|employed|studied|study|lived|live|taught|teach|played for|play for)"
)

# In this order: "Vergleiche alle Tarife" compares, "Übersicht der Schritte" lists.
_RULES: dict[str, tuple[tuple[QueryType, re.Pattern[str]], ...]] = {
    "de": (
        (
            QueryType.COMPARATIVE,
            _phrases(
                r"vergleich\w*", r"verglichen", r"unterschied(?:e|en|s)?", r"unterscheide[nt]?", r"gegenüberstell\w*",
                r"vs", r"versus", r"im gegensatz", r"(?:besser|schlechter|grösser|kleiner|höher|niedriger|teurer|"
                r"günstiger|schneller|langsamer|älter|jünger) als(?! \d)", r"vor- und nachteile\w*",
            ),
        ),
        (
            QueryType.RELATIONAL,
            _phrases(
                r"zusammenh[aä]ng\w*", r"hängt .{1,80} zusammen", r"hängen .{1,80} zusammen", r"beziehung\w*",
                r"verhältnis zwischen", r"verhält sich .{1,80} zu", r"(?:aus|ein)wirkung\w*", r"wirkt sich",
                r"wirken sich", r"einfluss", r"beeinfluss\w*", r"abhängig\w*", r"hängt .{1,80} ab",
            ),
        ),
        (
            QueryType.AGGREGATIVE,
            _phrases(
                r"(?<!für )(?<!bei )(?<!an )(?<!von )(?<!mit )(?<!vor )(?<!in )alle[rs]?", r"sämtliche\w*",
                r"liste\w*", r"auflist\w*", r"aufzähl\w*", r"zähle\w*", r"übersicht\w*", r"überblick",
                r"nenne(?! ich| man| wir)", r"zusammenfass\w*", r"fass\w* .{1,80} zusammen", r"worum geht es",
                r"wovon handelt", r"welche \w+ (?:gibt es|sind|waren|haben|hatten|werden|wurden|gehören|zählen)",
                _STATIONS_DE,
            ),
        ),
        (
            QueryType.PROCEDURAL,
            _phrases(
                r"wie (?:kann|könnte|muss|soll|sollte|darf)\w*", r"wie \w+(?: \w+)? (?:ich|man|wir)",
                r"was \w+ (?:ich|man|wir)\b.{0,80}\btun", r"wie geht\w*", r"wie funktioniert\w*", r"anleitung\w*",
                r"schritt\w*", r"vorgehen\w*", r"verfahren\w*", r"ablauf\w*", r"einricht\w*", r"installier\w*",
            ),
        ),
        (
            QueryType.TEMPORAL,
            _phrases(
                r"wann", r"seit wann", r"bis wann", r"ab wann", r"wie lang\w*", r"wie oft", r"in welchem jahr\w*",
                r"welches jahr", r"an welchem (?:tag|datum)", r"zu welcher zeit", r"datum", r"zeitpunkt", r"zeitraum",
                r"\w*frist(?:en)?", r"chronolog\w*", r"(?:zwischen|vor|nach|seit|ab|bis) (?:1\d|20)\d\d",
            ),
        ),
    ),
    "en": (
        (
            QueryType.COMPARATIVE,
            _phrases(
                r"compar\w+", r"differ", r"differs", r"differences?", r"distinguish\w*", r"vs", r"versus",
                r"as opposed to", r"in contrast to", r"(?:better|worse|bigger|larger|smaller|higher|lower|"
                r"cheaper|faster|slower|older|younger) than(?! \d)", r"pros and cons", r"advantages\w* .{1,80} over",
            ),
        ),
        (
            QueryType.RELATIONAL,
            _phrases(
                r"relat(?:e|es|ed|ion|ions|ionship|ionships)", r"connect(?:ed|ion|ions)", r"associat(?:ed|ion)",
                r"link between", r"(?:effect|effects|impact|influence) (?:of|on)", r"affects?", r"influences?",
                r"depends? on", r"dependent on",
            ),
        ),
        (
            QueryType.AGGREGATIVE,
            _phrases(
                r"(?<!for )(?<!with )(?<!of )(?<!by )(?<!in )(?<!at )all(?! right| of the same)", r"lists?",
                r"enumerate", r"overview", r"summar\w+", r"name the", r"what is .{1,80} about",
                r"(?:which|what) \w+ (?:are there|are|were|have|exist)", _STATIONS_EN,
            ),
        ),
        (
            QueryType.PROCEDURAL,
            _phrases(
                r"how to", r"how (?:can|could|do|does|should|must|would|may) (?:i|we|you|one)", r"steps?", r"guide",
                r"instructions?", r"procedure\w*", r"tutorial", r"install\w*", r"configur\w*", r"set up",
                r"what (?:should|must|can) (?:i|we|you|one) do",
            ),
        ),
        (
            QueryType.TEMPORAL,
            _phrases(
                r"when", r"since when", r"how long", r"how often", r"(?:what|which) (?:year|date|day|month|time)",
                r"date", r"deadline\w*", r"timeline", r"chronolog\w*",
                r"(?:between|before|after|since|until) (?:1\d|20)\d\d",
            ),
        ),
    ),
}  # fmt: skip

_QUESTION_WORDS = {
    "de": _phrases(
        r"w(?:er|en|em|essen|as|o|ann|ie|arum|eshalb|ieso|elche[mnrs]?|ozu|omit|oher|ohin|oran|orauf|oraus|ofür|"
        r"ogegen|obei|odurch|orin|ovon|ovor|orüber|orum)"
    ),
    "en": _phrases(r"who", r"whom", r"whose", r"what", r"where", r"when", r"why", r"which", r"how"),
}


def analyse_query(text: str, *, language: str) -> QueryReading:
    """Read the kind of answer from the wording, by the rules of its language, or by all where it has none.

    A wording that no rule knows asks for a fact. Where several rules fit, the one that needs the most chunks wins:
    comparisons and relations, then lists, procedures, times. Only lists look at whole documents (level 0).
    Give a bounded text, such as `searchable_text` makes.
    """
    wording = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    languages = (language,) if language in _RULES else tuple(_RULES)
    fitting = (kind for rules in languages for kind, phrases in _RULES[rules] if phrases.search(wording))
    query_type = next(fitting, QueryType.FACTUAL)
    words = sum(any(letter.isalnum() for letter in word) for word in wording.split())
    asks = "?" in wording or any(words.search(wording) for words in _QUESTION_WORDS.values())
    return QueryReading(
        query_type=query_type,
        keyword=0 < words <= MAX_KEYWORDS and not asks,
        levels=_ALL if query_type is QueryType.AGGREGATIVE else _DETAILS,
    )


def searchable_text(text: str, *, max_characters: int = 2000) -> str:
    """Cut a long question to what is worth searching with, in reading order; a short one only loses extra spaces.

    Of a long text the sentences that ask something stay, the last ones first, up to half of the room; its beginning
    and its end share the rest. An embedder that reads 512 tokens would drop everything but the beginning.
    Raises ValueError if `max_characters` is below 16.
    """
    if max_characters < _LEAST:
        raise ValueError(f"max_characters must be at least {_LEAST}, got {max_characters}")
    lines = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    if len(lines) <= max_characters:
        return lines.replace("\n", " ")
    spans = _questions(lines, max_characters // 2)
    room = max_characters - sum(end - start + 1 for start, end in spans)
    head, tail = room // 2, len(lines) - (room - room // 2) + 1
    spans = [
        (0, _word_end(lines, head)),
        *((start, end) for start, end in spans if head <= start and end <= tail),
        (_word_start(lines, tail), len(lines)),
    ]
    return " ".join(" ".join(lines[start:end].split()) for start, end in spans if end > start)


_LEAST = 16
_MAX_QUESTION = 400
_ENDS = (". ", "! ", "? ", ": ", "\n")


def _questions(lines: str, room: int) -> list[tuple[int, int]]:
    """Find sentences that end in a question mark, the last ones first until the room is used; in reading order."""
    found: list[tuple[int, int]] = []
    mark = len(lines)
    while (mark := lines.rfind("?", 0, mark)) >= 0:
        # A question mark within an address asks nothing.
        if not lines[mark + 1 : mark + 2].isspace() and mark + 1 < len(lines):
            continue
        earliest = max(0, mark - _MAX_QUESTION)
        ends = [place + len(end) for end in _ENDS if (place := lines.rfind(end, earliest, mark)) >= 0]
        start = max(ends, default=_word_start(lines, earliest))
        room -= mark + 2 - start
        if room < 0:
            break
        found.append((start, mark + 1))
        mark = start
    return found[::-1]


def _word_end(lines: str, limit: int) -> int:
    """Step back to the end of a word, unless one word fills it all."""
    space = max(lines.rfind(" ", 0, limit + 1), lines.rfind("\n", 0, limit + 1))
    return space if space > 0 else limit


def _word_start(lines: str, limit: int) -> int:
    """Step on to the start of a word, unless there is none near."""
    near = re.compile(r"\s").search(lines, max(limit - 1, 0), limit + _MAX_QUESTION)
    return near.end() if limit and near else limit
