"""Questions from headings."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from freki.operators.propose_questions.source import (
    ENGLISH,
    GERMAN,
    Proposal,
    ProposalDocument,
    ProposalHeading,
    ProposalPassage,
)
from freki.operators.propose_questions.words import (
    ARTICLES,
    DEPENDENT,
    content_stems,
    is_general,
    specific_stems,
    words_of,
)
from freki.schemas import ChunkKind
from freki.schemas.evaluation import Origin

LONGEST_WORDS: Final = 9
"""Words above which a heading is no query: people type fewer."""
LONGEST_TITLE: Final = 12
"""The same for the title of a document, which people know or copy."""
LONGEST_QUESTION: Final = 160
"""Characters above which a heading is no question."""
LEAST_TEXT: Final = 80
"""Characters below a heading from which on its section can answer something."""
WHOLE: Final = 0.8
"""Share of a document from which on a section is the document: expecting it says nothing more."""
LEAST_SPECIFIC: Final = 2
"""Words of a heading that are not general: one alone is mostly ambiguous."""
LEAST_COMPOUND: Final = 10
"""Letters of a German word that is enough by itself: it is a compound, such as Umweltverträglichkeit."""
_LETTERS: Final = 0.6
"""Minimum share of letters and blanks in a heading."""

GENERAL = "headings too general"
DEPENDING = "headings that go on with the heading above"
REFERRING = "questions that refer to their surroundings"
DATED = "headings with a date"
STATING = "headings that are sentences"
CODE = "headings that are names in code"
LENGTH = "headings too long or too short"
EMPTY = "headings without text below them"
REPEALED = "headings of repealed sections"

_NUMBERING = re.compile(
    r"""
    (?:
        §{1,2}\s*\d+\s?[a-z]?\b(?:\s*(?:bis|und|to|and|-|–)\s*§{0,2}\s*\d+\s?[a-z]?\b)?
        | (?:art(?:ikel|icle|\.)?|kap(?:itel|\.)?|(?:unter)?abschnitt|teil|buch|(?:unter)?titel|anlage|anhang|nr\.?
            |chapter|section|part|appendix|annex|step|schritt|phase|pep|question|frage)
          (?:\s*\d+(?:\.\d+)*[a-z]?|(?:\s+|(?<=\.))(?-i:[IVXLC]+|[A-Z]))(?=[\s.:)–-]|\Z)
        | (?:\d{1,2}\.|[a-zäöü]{4,12}te[rs]?)\s+(?:abschnitt|teil|kapitel|titel|buch|unterabschnitt)\b
        | \d{1,3}(?:\.\d+)*\.?\)?(?=\s) | [A-Z][.)](?=\s) | \([0-9a-z]{1,3}\) | [IVXLC]+[.)](?=\s) | [a-z]\)
        | [QF]:
    )
    \s*[-–—:.]*\s*
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PERIOD = re.compile(
    r"(?:(?:seit|ab|bis|since|from|until)\s+)?(?:\d{1,2}[./])?\d{4}(?:\s*(?:bis|to|until|-|–)\s*"
    r"(?:(?:\d{1,2}[./])?\d{4}|heute|today|present|now))?\s*[:,–-]\s*",
    re.IGNORECASE,
)
"""The time before an entry of a CV, which nobody asks with."""
_DATE = re.compile(r"\d{1,2}\. ?(?:\d{1,2}\.|[A-ZÄ][a-zä]{2,8} )\d{4}|\d{4}-\d\d-\d\d")
_REMARK = re.compile(r"\s*\([a-zäöü ]+\)")
_REPEALED = re.compile(
    r"weggefallen|aufgehoben|gegenstandslos|nicht (?:mehr )?(?:belegt|anwendbar)|repealed|\bx{3,}\b", re.IGNORECASE
)
_CODE = re.compile(r"[={}<>\[\]\\|^$@]\S|_\w|\w_|\w\.\w|::|\w\(|/\w+/|--\w")
_PUNCTUATION = re.compile(r"""[„“”"'»«;:,!?()\[\]]+(?!\w)|(?<!\w)[„“”"'»«;:,!?()\[\]]+|(?<!\S)[–—-]+(?=\s)""")
_MARKS = re.compile(r"[*`]+")
_ASKING = re.compile(
    r"(?:wer|was|wann|wo|wie|warum|wieso|weshalb|wozu|woher|wohin|welche[rsmn]?|wem|wen|womit|worauf|wofür|kann|darf|muss"
    r"|gibt|ist|sind|hat|habe|what|when|where|who|whom|why|how|which|can|do|does|is|are|should|may|must|will)\b",
    re.IGNORECASE,
)
_REFERRING = re.compile(
    r"\b(?:this|these|those|here|above|below|dies|diese[rsmn]?|hier|hierfür|hierbei|dafür|dabei|dazu|oben|unten)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:it|they|them|he|she|er|ihn|sie|ihnen)\b", re.IGNORECASE)
_STATING = re.compile(
    r"\b(?:is|are|was|has|have|should|must|will|can|cannot|don't|ist|sind|wird|muss|müssen)\b", re.IGNORECASE
)
_LEAST_WORDS: Final = 4
"""Words of a question in a heading: shorter ones are fragments, such as "Which test?"."""
_LEAST_ASKED: Final = 2
"""Words with meaning that a question needs to be understood alone."""
_LEAST_WITH_PRONOUN: Final = 4
_FEMININE = re.compile(
    r"(?!.*(?:sprung|schwung)\Z)[A-ZÄÖÜ][\wäöüß-]*"
    r"(?:ung|heit|keit|schaft|tion|sion|tät|frist|pflicht|steuer|gebühr|behörde|anlage|stelle|sperre|hilfe|zulage)"
    r"(?:e?n)?|[A-ZÄÖÜ][\wäöüß-]{3,}(?:rechte|kosten|fristen|pflichten|gründe|maßnahmen|ansprüche|verbote|arbeiten|zeiten)"
)
_NEUTER = re.compile(r"[A-ZÄÖÜ][\wäöüß-]+(?:recht|verfahren|verbot|gebot|geheimnis|zeugnis|verhältnis|gesetz|konto)")
_GERMAN_REST = re.compile(
    rf"(?: (?:und|oder|sowie) (?:{_FEMININE.pattern})(?!\w))?"
    r"(?: (?:de[rs]|eine[rs]|von|vom|bei|beim|für|durch|auf|über|zu[mr]?|nach|im|in|an|am|aus|mit|ohne|"
    r"gegen|wegen|während)\b[^;:()!?]*)?"
)
_IMPERATIVE = re.compile(
    r"(?:Add|Adjust|Allow|Apply|Assign|Back up|Build|Change|Check|Choose|Clean|Configure|Connect|Copy|Create|Debug"
    r"|Define|Delete|Deploy|Disable|Enable|Encrypt|Export|Find|Fix|Generate|Import|Install|Limit|Log|Maintain|Make|Manage"
    r"|Migrate|Monitor|Move|Open|Print|Publish|Read|Rebuild|Recover|Reduce|Register|Reindex|Remove|Rename|Replace|Reset|Restart"
    r"|Restore|Rotate|Run|Save|Schedule|Search|Send|Set up|Set|Share|Start|Stop|Store|Switch|Sync|Transfer|Troubleshoot"
    r"|Tune|Uninstall|Update|Upgrade|Upload|Use|Validate|Verify|Write)"
    # Title Case is a title, not an instruction.
    r" (?=[a-z])(?!and\b|or\b|cases?\b|of\b|to\b|for\b|in\b)[^:;?]+"
)


class HeadingCandidate(NamedTuple):
    """A question made from a heading, with what decides whether other documents answer it too."""

    proposal: Proposal
    stems: frozenset[str]
    """Of the words of the heading that carry meaning; empty for questions of an FAQ, which say all themselves."""
    specific: frozenset[str]
    """Of those that are not general."""
    start: int
    end: int
    """Half-open span of the section in its document."""


def heading_candidates(document: ProposalDocument, left_out: Counter[str]) -> Iterator[HeadingCandidate]:
    """Yield a question for each heading that says what its section is about; count the others in `left_out`.

    A heading that is a question is asked as it is. Others become a German or English question where that is
    grammatical without knowing more than endings, else the words that people would type.
    """
    headings = document.headings
    is_code = all(passage.kind is ChunkKind.CODE for passage in document.passages)
    for place, heading in enumerate(headings):
        end = next((each.start for each in headings[place + 1 :] if each.level <= heading.level), document.characters)
        title = _title(heading.title)
        asks = title.endswith("?") and title.count("?") == 1 and bool(_ASKING.match(title))
        is_whole = end - heading.start >= WHOLE * document.characters
        most_words = LONGEST_TITLE if is_whole else LONGEST_WORDS
        reason = (
            CODE
            if is_code
            else (_reason_against_question(title) if asks else _reason(title, document.language, most_words))
        )
        reason = REPEALED if _REPEALED.search(heading.title) else reason
        inner = headings[place + 1 : place + 1 + _below(headings, place, end)]
        if reason is None and _text_length(heading, inner, end) < LEAST_TEXT and not asks:
            reason = EMPTY
        if reason is not None:
            left_out[reason] += 1
            continue
        proposal = Proposal(
            question=title if asks else as_query(title, "" if is_whole else document.language),
            document_id=document.document_id,
            origin=Origin.FAQ if asks else Origin.HEADING,
            sections=_sections(document, heading, end),
        )
        stems = (frozenset[str](),) * 2 if asks else (content_stems(title), specific_stems(title))
        yield HeadingCandidate(proposal, *stems, heading.start, end)


def as_query(title: str, language: str) -> str:
    """Return a heading as a question where that is grammatical, else as keywords."""
    if language == GERMAN:
        first = title.split(maxsplit=1)[0]
        article = "die" if _FEMININE.fullmatch(first) else "das" if _NEUTER.fullmatch(first) else ""
        if article and _GERMAN_REST.fullmatch(title[len(first) :]):
            return f"Was gilt für {article} {title}?"
    if language == ENGLISH and _IMPERATIVE.fullmatch(title):
        return f"How do I {title[0].lower()}{title[1:]}?"
    first, *rest = _PUNCTUATION.sub(" ", title).split() or [title]
    return " ".join(rest if first.casefold() in ARTICLES and rest else [first, *rest])


def _title(title: str) -> str:
    """Return a heading without number, period, emphasis, remarks such as "(optional)" and trailing punctuation."""
    title = _MARKS.sub("", title).strip()
    while (found := _NUMBERING.match(title)) and found.end():
        title = title[found.end() :].lstrip()
    return _REMARK.sub("", _PERIOD.sub("", title, count=1)).strip(" -–—:.,;#")


def _reason(title: str, language: str, most_words: int) -> str | None:
    """Return why no query is made from a heading."""
    words = [word for word in words_of(title) if content_stems(word)]
    specific = [word for word in words if not is_general(word)]
    for pattern, reason in ((_CODE, CODE), (_DATE, DATED), (_REFERRING, REFERRING), (_STATING, STATING)):
        if pattern.search(title):
            return reason
    if not specific or sum(each.isalpha() or each == " " for each in title) < _LETTERS * len(title):
        return GENERAL
    if words_of(title)[0].casefold() in DEPENDENT:
        return DEPENDING
    if len(specific) < LEAST_SPECIFIC and not (language == GERMAN and len(specific[0]) >= LEAST_COMPOUND):
        return GENERAL
    return LENGTH if len(words_of(title)) > most_words else None


def _reason_against_question(title: str) -> str | None:
    """Return why a heading that is a question is not asked."""
    if len(title) > LONGEST_QUESTION:
        return LENGTH
    words = [word for word in words_of(title) if content_stems(word)]
    least = _LEAST_WITH_PRONOUN if _PRONOUN.search(title) else _LEAST_ASKED
    is_fragment = len(words) < least or len(words_of(title)) < _LEAST_WORDS
    return REFERRING if _REFERRING.search(title) or is_fragment or all(map(is_general, words)) else None


def _below(headings: Sequence[ProposalHeading], place: int, end: int) -> int:
    return sum(each.start < end for each in headings[place + 1 :])


def _text_length(heading: ProposalHeading, inner: Sequence[ProposalHeading], end: int) -> int:
    return end - heading.start - len(heading.title) - sum(len(each.title) for each in inner)


def _sections(document: ProposalDocument, heading: ProposalHeading, end: int) -> tuple[str, ...]:
    """Return the heading by which chunks of the section can be recognised; none where it is the whole document."""
    if end - heading.start >= WHOLE * document.characters:
        return ()
    inside = [each for each in document.passages if each.start < end and each.end > heading.start]
    if any(heading.title in each.heading_path for each in inside):
        return (heading.title,)
    # A section too small for a chunk of its own is in one with its neighbours, under the heading above them.
    return section_of(document, inside[0]) if inside else ()


def section_of(document: ProposalDocument, passage: ProposalPassage) -> tuple[str, ...]:
    """Return the innermost heading of a passage; none where its section is the whole document."""
    path = passage.heading_path
    if not path:
        return ()
    size = sum(len(each.text) for each in document.passages if path[-1] in each.heading_path)
    return () if size >= WHOLE * document.characters else (path[-1],)
