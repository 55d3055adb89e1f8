"""Questions from sentences that define a term, and from abbreviations."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from freki.operators.propose_questions.headings import section_of
from freki.operators.propose_questions.source import ENGLISH, GERMAN, MARK, Proposal, ProposalDocument, ProposalPassage
from freki.operators.propose_questions.words import FUNCTION_WORDS, is_general, words_of
from freki.schemas import ChunkKind
from freki.schemas.evaluation import Origin
from freki.schemas.outline import one_line

LONGEST_SPAN: Final = 500
"""Characters of a definition: a longer one may be cut by chunks and contexts."""
LEAST_SPAN: Final = 25

LENGTH = "definitions too long or too short"
TERM = "definitions of no term"
LIST = "definitions that go on in a list outside of their chunk"

_LEAD = re.compile(rf"(?:\(\d+[a-z]?\)|{MARK}|\*\*)\s*")
_ITEM = re.compile(rf"{MARK}\s")
_FIRST_ITEM = re.compile(r"(?:1[.)]|aa?\)|[-*•–])\s")
_ENDS = (".", "!", "?", ";")
_OPEN, _CLOSE = r"[„\"»“*`']*", r"[“\"«”*`']*"
_ARTICLE = r"(?:(?P<article>Eine?) )?"
_GERMAN_TERM = (
    rf"{_OPEN}(?P<term>"
    r"(?:(?<=Ein )[a-zäöü]+e[rs] |(?<=Eine )[a-zäöü]+e )?[A-ZÄÖÜ][\w-]+(?: [\wäöüß-]+){0,5}?"
    rf"){_CLOSE}"
)
_SENSE = r"im Sinne (?:dieses|dieser) [^,;]{3,60}?"
_NOUN = r"(?:[a-zäöüß-]+e[nrsm]? ){0,3}[A-ZÄÖÜ][\w-]+"
_NO_KIND = r"(?! (?:Teil|Teile|Bestandteil|Gegenstand|Sache|Aufgabe|Voraussetzung|Grundlage|Ziel)\b)"
_IS = (
    rf"(?:ist (?:eine?|jede[rs]?|der|die|das) {_NOUN}"
    rf"|(?P<plural>sind){_NO_KIND} (?:(?:alle|solche|diejenigen|die) )?{_NOUN})"
)
_RELATIVE = (
    r",? (?:die|der|das|deren|dessen|welche[rs]?|wenn|soweit"
    r"|(?:in|bei|mit|aus|auf|von|an|über) (?:dem|denen|der))\b"
)
_UNTIED = r"(?! (?:dabei|hierbei|insoweit|auch|nicht)\b)"


class _Form(NamedTuple):
    """A form of definitions, and the questions that it answers."""

    pattern: re.Pattern[str]
    singular: str
    plural: str = ""
    """Where `plural` matched."""
    indefinite: str = ""
    """Where `article` matched."""


def _form(pattern: str, singular: str, plural: str = "", indefinite: str = "") -> _Form:
    return _Form(re.compile(f"^{pattern}"), singular, plural or singular, indefinite or singular)


_MEANS: Final = ("Was bedeutet {quoted}?", "Was sind {lowered}?", "Was ist {article} {term}?")
_UNDERSTOOD: Final = "Was versteht man unter {term}?"
_UNDER: Final = rf"Unter (?:eine[mr] |de[mr] |den )?{_GERMAN_TERM}(?: {_SENSE})?"
_GERMAN: Final = (
    _form(rf"{_GERMAN_TERM}(?: {_SENSE})? (?:ist|sind), wer\b", "Wer ist {lowered}?"),
    _form(rf"Als {_GERMAN_TERM}(?: {_SENSE})? gilt, wer\b", "Wer gilt als {term}?"),
    _form(rf"Als {_GERMAN_TERM}(?: {_SENSE})? (?:gilt|gelten)\b{_UNTIED}", "Was gilt als {term}?"),
    _form(rf"{_UNDER} versteht (?:man|sich)\b", _UNDERSTOOD),
    _form(rf"{_UNDER} (?:ist|sind) .* zu verstehen\b", _UNDERSTOOD),
    _form(rf"{_ARTICLE}{_GERMAN_TERM} {_SENSE} (?:{_IS}|(?:ist|(?P<several>sind)):?\Z)", *_MEANS),
    _form(
        r"Im Sinne (?:dieses|dieser|des|der)\b[^,;]{0,60}? (?:ist|(?P<plural>sind)) (?:eine? )?"
        rf"{_GERMAN_TERM},? (?:eine?|die|der|das|jede[rs]?|alle|wer)\b",
        *_MEANS,
    ),
    _form(
        rf"(?:(?:Der|Die|Das) )?(?:(?:Begriff|Ausdruck|Wort) )?{_GERMAN_TERM} (?:bedeutet|bezeichnet|meint)\b"
        r"(?!,? dass\b)",
        *_MEANS,
    ),
    _form(rf"{_ARTICLE}{_GERMAN_TERM} {_IS}[^.;:]{{0,120}}?{_RELATIVE}", *_MEANS),
)
_GERMAN_LISTED: Final = (
    _form(rf"{_ARTICLE}{_GERMAN_TERM} {_IS}", *_MEANS),
    _form(
        r"[„\"»“](?P<term>[^“\"«”„»]{3,60})[“\"«”]:? "
        r"(?:eine?n?|die|der|das|jede[rsn]?|alle|jeglich\w+|solche|[A-ZÄÖÜ])",
        *_MEANS,
    ),
    _form(rf"{_OPEN}(?P<term>[A-ZÄÖÜ][\w-]+(?: [\w-]+){{0,3}}){_CLOSE}(?::{_CLOSE} | [–—] |: )[^\W\d]", *_MEANS),
    _form(r"(?P<term>[A-ZÄÖÜ][\w-]{4,}):? (?:eine?|die|der|das|jede[rs]?) [a-zäöüA-ZÄÖÜ]", *_MEANS),
)
_ENGLISH_TERM = rf"{_OPEN}(?P<term>[A-Za-z][\w-]*(?: [\w-]+){{0,3}}?){_CLOSE}"
_MEAN: Final = "What does {quoted} mean?"
_ENGLISH: Final = (
    _form(
        rf"(?:(?:An?|The) )?(?:term |word )?{_ENGLISH_TERM} (?:means|denotes|refers to|is defined as|stands for)\b"
        r"(?! that\b)",
        _MEAN,
    ),
    _form(
        rf"(?P<article>An?) {_ENGLISH_TERM} is (?:an?|any) [\w-]+.*"
        r"\b(?:that|which|who|whose|where|used|for|of|with|in|to|containing)\b",
        "What is {article} {term}?",
    ),
)
_ENGLISH_LISTED: Final = (
    _form(rf"{_OPEN}(?P<term>[A-Za-z][\w-]+(?: [\w-]+){{0,3}}){_CLOSE}(?::{_CLOSE} | [–—] | - |: )[^\W\d]", _MEAN),
)
_DEFINING = re.compile(r"begriff|definition|glossar|terminolog|glossary|abkürzung", re.IGNORECASE)
_NO_TERM = re.compile(
    r"""(?:dies\w*|jede\w*|er|sie|es|ihr\w*|man|wer|was|hier\w*|da\w*|dort|so|auch|dann|voraussetzung\w*|grundlage\w*|ziel\w*
    |zweck\w*|gegenstand|aufgabe\w*|maßgebend|maßgeblich|ausgenommen|absatz|satz|gleiches|entsprechendes|beispiele?|folge\w*
    |jedoch|ferner|zudem|außerdem|ebenso|stets|weiter\w*|zusätzlich|grundsätzlich|prime|decade|wide
    |kein\w*|andere\w*|absätze\w*
    |this|that|these|those|it|he|she|they|there|which|what|who|one|we|you|here|now|another|other|each|every|some|any|no
    |common|good|simple|single|new|typical|better|best|possible|similar|major|key|second|first|third|last|next|further|related
    |short|small|large|big|potential|reasonable|more|less|recent|few|lot|number|nice|real|true|such|full|also|even|however|pep
    |note|example|for|if|in|as|when|while|but|and|or|not|use|using|default|current|previous|following|above|same|only|great)"""
    r"\b",
    re.IGNORECASE | re.VERBOSE,
)
_ADJECTIVE = re.compile(r"[\wäöüß-]+(?:ig|lich|bar|isch|sam|haft|los|frei|end|pflichtig|tigt|iert|ndt|ert|ist|elt)")
_PERSON = re.compile(r"[\wäöüß-]+(?:ist|ent|ant|wirt|arzt|at)\Z")


_SINGULAR = re.compile(r"(?:ung|heit|keit|schaft|ion|tät|ie|ei|ik|ur)\Z")
"""Endings of nouns that are no plural: "Nutzenergie sind Licht, Wärme" defines one term."""
_ATTRIBUTE = re.compile(r"[a-zäöüß]e[nrs]?\Z")
_MATTER = re.compile(r"---|[A-Z][\w-]*: \S+ [A-Z][\w-]*: ")
_LOOSE: Final = FUNCTION_WORDS - {"for", "in", "on", "at", "as"}
_LEAST_TERM: Final = 2


class TermCandidate(NamedTuple):
    """A question about a term, which other documents may define too."""

    proposal: Proposal
    term: str
    """In lower case."""


def definition_candidates(document: ProposalDocument, left_out: Counter[str]) -> Iterator[TermCandidate]:
    """Yield a question for each term that a sentence of the document defines, the first sentence for each.

    A definition that goes on in a list has its items too. German and English only. In sections named as definitions,
    also entries such as `Term: text`.
    """
    if document.language not in {GERMAN, ENGLISH}:
        return
    seen: set[str] = set()
    for passage in document.passages:
        if passage.kind in {ChunkKind.CODE, ChunkKind.TABLE}:
            continue
        forms = list(_forms(document.language, passage))
        sentences = list(passage.sentences())
        for place, sentence in enumerate(sentences):
            found = None if _is_matter(sentence) else _defined(_without_lead(sentence), forms)
            if found is None:
                continue
            spans = [sentence, *_items(sentence, sentences[place + 1 :])]
            if spans == [sentence] and sentence.endswith(":"):
                left_out[LIST] += 1
                continue
            if not LEAST_SPAN <= sum(map(len, spans)) <= LONGEST_SPAN:
                left_out[LENGTH] += 1
                continue
            form, match = found
            question = _question(form, match, document.language)
            if question is None:
                left_out[TERM] += 1
                continue
            term = match["term"].casefold()
            if term not in seen:
                seen.add(term)
                yield TermCandidate(_proposal(document, passage, question, Origin.DEFINITION, spans), term)


def abbreviation_candidates(document: ProposalDocument, left_out: Counter[str]) -> Iterator[TermCandidate]:
    """Yield a question for each abbreviation that the document explains, with the sentence that does."""
    if document.language not in {GERMAN, ENGLISH}:
        return
    for abbreviation in document.abbreviations:
        short = re.compile(rf"(?<!\w){re.escape(abbreviation.short)}(?!\w)")
        question = (
            f"Was bedeutet {abbreviation.short}?"
            if document.language == GERMAN
            else f"What does {abbreviation.short} mean?"
        )
        explaining = (
            (passage, sentence)
            for passage in document.passages
            if passage.kind is not ChunkKind.CODE
            for sentence in passage.sentences()
            if abbreviation.long in sentence
            and short.search(sentence)
            and not _is_matter(sentence)
            and not re.search(rf"`[^`]*\b{re.escape(abbreviation.short)}\b[^`]*`", sentence)
        )
        found = next((each for each in explaining if len(each[1]) <= LONGEST_SPAN), None)
        if found is None:
            left_out[LENGTH] += 1
            continue
        proposal = _proposal(document, found[0], question, Origin.ABBREVIATION, [found[1]])
        yield TermCandidate(proposal, abbreviation.short.casefold())


def _items(sentence: str, following: Sequence[str]) -> Iterator[str]:
    """Yield the items of the list in which a sentence goes on; items with marks like its own stand beside it."""
    # What is cut out of the middle of a sentence or a list goes on with any number.
    if following and _FIRST_ITEM.match(following[0]) and not sentence.endswith(_ENDS):
        own = _mark(sentence)
        yield from takewhile(lambda each: _mark(each) not in {None, own}, following)


def _mark(sentence: str) -> str | None:
    """Return the kind of the mark that makes a sentence an item."""
    return match.lastgroup if (match := _ITEM.match(sentence)) else None


def _proposal(
    document: ProposalDocument, passage: ProposalPassage, question: str, origin: Origin, spans: Sequence[str]
) -> Proposal:
    return Proposal(
        question=question,
        document_id=document.document_id,
        origin=origin,
        sections=section_of(document, passage),
        spans=tuple(spans),
    )


def _forms(language: str, passage: ProposalPassage) -> Iterator[_Form]:
    listed = any(_DEFINING.search(heading) for heading in passage.heading_path[-2:])
    yield from _GERMAN if language == GERMAN else _ENGLISH
    if listed:
        yield from _GERMAN_LISTED if language == GERMAN else _ENGLISH_LISTED


def _without_lead(sentence: str) -> str:
    """Return a sentence without the number or mark of its paragraph or item."""
    while (lead := _LEAD.match(sentence)) and lead.end() < len(sentence):
        sentence = sentence[lead.end() :]
    return one_line(sentence)


def _defined(sentence: str, forms: Sequence[_Form]) -> tuple[_Form, re.Match[str]] | None:
    """Return the first form that a sentence has, with its match."""
    for form in forms:
        if (match := form.pattern.match(sentence)) and not _NO_TERM.match(match["term"]):
            return form, match
    return None


def _question(form: _Form, match: re.Match[str], language: str) -> str | None:
    """Return the question whose answer is the definition; None where what is defined is no term."""
    term = match["term"]
    found = match.groupdict()
    lowered = _lowered(term) if language == GERMAN else term
    if not _is_term(term, language) or ("{lowered}" not in form.singular and _is_adjective(term, language)):
        return None
    if (found.get("plural") or found.get("several")) and not _SINGULAR.search(term):
        asked = form.plural
    else:
        asked = form.indefinite if found.get("article") else form.singular
    return asked.format(
        term=term,
        lowered=lowered,
        quoted=_quoted(lowered, language),
        article=(found.get("article") or "").lower(),
    )


def _is_term(term: str, language: str) -> bool:
    words = words_of(term)
    loose = FUNCTION_WORDS if language == GERMAN else _LOOSE
    if len(term) < _LEAST_TERM or "im Sinne" in term or not words or words[0].casefold() in loose:
        return False
    if language == ENGLISH and any(word.casefold() in _LOOSE for word in words):
        return False
    return not all(word.casefold() in FUNCTION_WORDS or is_general(word) for word in words)


def _is_matter(sentence: str) -> bool:
    """Return whether a sentence is front matter or the row of a table."""
    return bool(_MATTER.match(sentence)) or " | " in sentence or "```" in sentence


def _is_adjective(term: str, language: str) -> bool:
    german = language == GERMAN and " " not in term
    return german and bool(_ADJECTIVE.fullmatch(term)) and not _PERSON.search(term)


def _quoted(term: str, language: str) -> str:
    """Return a term in quotes if it has several words, so that the question stays a sentence."""
    if " " not in term:
        return term
    return f"„{term}“" if language == GERMAN else f'"{term}"'


def _lowered(term: str) -> str:
    """Return a term with a small letter where it begins with an adjective, which only the sentence capitalised."""
    first, _, rest = term.partition(" ")
    is_attribute = rest[:1].isupper() and bool(_ATTRIBUTE.search(first))
    return f"{term[0].lower()}{term[1:]}" if is_attribute or _is_adjective(term, GERMAN) else term
