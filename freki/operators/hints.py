"""Hints for queries with few or uncertain hits."""

from collections.abc import Sequence
from typing import NamedTuple

from freki.schemas import Confidence, ContextQuery, QueryAnalysis

_DOUBTFUL = frozenset({Confidence.LOW, Confidence.NONE})


class Filtered(NamedTuple):
    """What filters did."""

    fields: Sequence[str] = ()
    """The fields that they name."""
    excluded: int = 0
    """Number of readable documents that they alone excluded."""


UNFILTERED = Filtered()


class Messages(NamedTuple):
    """The messages in one language."""

    failed: str
    nothing: str
    little: str
    uncertain: str
    unanswered: str
    lacking: str
    quoted: str
    filters: str
    min_score: str
    min_similarity: str
    levels: str
    keyword: str
    wording: str
    absent: str
    excluded: str
    source: str


_GERMAN = Messages(
    failed="Die Suche ist fehlgeschlagen; was es dazu gibt, ist nicht bekannt. Fragen Sie noch einmal.",
    nothing="Dazu wurde nichts gefunden. Das heißt nicht, dass es dazu nichts gibt.",
    little="Dazu wurde nur wenig gefunden ({found} von {wanted} gewünschten Treffern); es kann mehr geben.",
    uncertain="Keiner der Treffer passt sicher zur Frage; sie beantworten sie vielleicht nicht.",
    unanswered="Hier scheint nichts die Frage zu beantworten; die Treffer sind nur die nächstliegenden.",
    lacking="Kein Treffer enthält, was die Frage nennt: {named}.",
    quoted="„{phrase}“",
    filters="Lassen Sie Filter weg; gesucht wurde nur nach: {fields}.",
    min_score="Senken Sie die verlangte Mindestbewertung ({min_score}).",
    min_similarity="Senken Sie die verlangte Mindestähnlichkeit ({min_similarity}).",
    levels="Lassen Sie die Ebenen offen; gesucht wurde nur auf: {levels}.",
    keyword="Fragen Sie in einem ganzen Satz; zu Stichwörtern allein gibt es wenig Anhalt.",
    wording="Fragen Sie mit den Wörtern, die im Dokument stehen könnten, oder nach weniger auf einmal.",
    absent="Vielleicht ist das Dokument noch nicht im Index, oder Sie dürfen es nicht lesen.",
    excluded="Ohne die Filter kämen weitere Dokumente in Frage: {excluded}.",
    source="Fragen Sie im Zweifel dort nach, woher die Dokumente kommen.",
)
_ENGLISH = Messages(
    failed="Searching failed, so that nothing is known of what there is. Ask again.",
    nothing="Nothing was found on this. That does not mean that there is nothing.",
    little="Only little was found on this ({found} of {wanted} hits asked for); there may be more.",
    uncertain="None of the hits fits the query with certainty; they may not answer it.",
    unanswered="Nothing here seems to answer this; the hits are only the nearest to it.",
    lacking="No hit has what the query names: {named}.",
    quoted="“{phrase}”",
    filters="Leave out filters; only this was searched: {fields}.",
    min_score="Lower the least score that you ask for ({min_score}).",
    min_similarity="Lower the least similarity that you ask for ({min_similarity}).",
    levels="Leave the levels open; only these were searched: {levels}.",
    keyword="Ask in a whole sentence; keywords alone give little to go by.",
    wording="Ask in words that may stand in the document, or for less at a time.",
    absent="The document may not be in the index yet, or you may not be allowed to read it.",
    excluded="Without the filters further documents would come into question: {excluded}.",
    source="If in doubt, ask where the documents come from.",
)


def hints(
    query: ContextQuery,
    analysis: QueryAnalysis,
    *,
    found: int,
    wanted: int,
    confidence: Confidence = Confidence.UNKNOWN,
    lacking: Sequence[str] = (),
    filtered: Filtered = UNFILTERED,
) -> tuple[str, ...]:
    """Return what was found and what to change; nothing where `wanted` hits were found with certainty.

    found: hits in the answer; wanted: the limit; confidence: whether some hit answers the query, by its scores;
    lacking: what the query names or quotes, and no hit has.
    German for German queries, English for all others. The hints never state that a document does not exist, and are
    the same for unknown and unreadable documents.
    """
    uncertain = confidence in _DOUBTFUL
    if found >= wanted and not uncertain:
        return ()
    say = _said_in(analysis.language)
    doubt = say.unanswered if confidence is Confidence.NONE else say.uncertain
    if not found:
        advice = [say.nothing]
    elif found >= wanted or confidence is Confidence.NONE:
        advice = [doubt]
    else:
        advice = [say.little.format(found=found, wanted=wanted), *([doubt] if uncertain else [])]
    if lacking:
        advice.append(say.lacking.format(named=", ".join(lacking)))
    if filtered.fields:
        advice.append(say.filters.format(fields=", ".join(filtered.fields)))
        if filtered.excluded:
            advice.append(say.excluded.format(excluded=filtered.excluded))
    advice += _loosened(query, say)
    if confidence is not Confidence.HIGH:
        advice.append(say.keyword if analysis.keyword else say.wording)
    if not found:
        advice.append(say.absent)
    if not found or uncertain:
        advice.append(say.source)
    return tuple(advice)


def quoted(phrase: str, language: str) -> str:
    """Return a phrase in quotation marks, as hints in this language have them."""
    return _said_in(language).quoted.format(phrase=phrase)


def failure_hint(language: str) -> str:
    """Return what a result without hits says if searching failed."""
    return _said_in(language).failed


def _said_in(language: str) -> Messages:
    return _GERMAN if language == "de" else _ENGLISH


def _loosened(query: ContextQuery, say: Messages) -> list[str]:
    """Return which limits of the query may be given up."""
    advice = []
    if query.min_score is not None:
        advice.append(say.min_score.format(min_score=f"{query.min_score:g}"))
    if query.min_similarity is not None:
        advice.append(say.min_similarity.format(min_similarity=f"{query.min_similarity:g}"))
    if query.levels is not None:
        advice.append(say.levels.format(levels=", ".join(map(str, query.levels))))
    return advice
