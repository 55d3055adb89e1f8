"""An answer that a language model writes from the hits of a query, and what was found of each of its sentences."""

from enum import StrEnum

from freki.schemas.names import record


class SupportStatus(StrEnum):
    """What the check of a sentence against its sources found."""

    SUPPORTED = "SUPPORTED"
    """Its words and figures are in a source; see `docs/serve.md` for how often that is wrong."""
    UNSUPPORTED = "UNSUPPORTED"
    """The check did not find it; the reader should not believe it without the source."""
    UNCHECKED = "UNCHECKED"
    """It is in another language than its source, so that words cannot be compared; figures were."""


class Doubt(StrEnum):
    """Why a sentence is not supported."""

    FIGURE = "FIGURE"
    """A figure of it is in none of its sources."""
    WORDS = "WORDS"
    """Less than half of its terms are in its sources."""
    NEGATION = "NEGATION"
    """The closest statement of a source has a negation and the sentence has none, or the other way round."""
    CITATION = "CITATION"
    """It cites a source that does not exist."""
    ELSEWHERE = "ELSEWHERE"
    """Not what it cites supports it, but another source."""


class AnswerEnding(StrEnum):
    """How an answer ended."""

    COMPLETE = "COMPLETE"
    NO_MODEL = "NO_MODEL"
    """No language model is configured: the hits are all there is."""
    NO_SOURCES = "NO_SOURCES"
    """No hit: the language model was not asked."""
    NO_ANSWER = "NO_ANSWER"
    """The language model says that the sources do not answer the question."""
    NO_BUDGET = "NO_BUDGET"
    """No tokens are left today."""
    TRUNCATED = "TRUNCATED"
    """It reached the maximum length; a sentence that was begun is left out."""
    RAMBLED = "RAMBLED"
    """It repeated itself, and was stopped."""
    FAILED = "FAILED"
    """The language model did not answer, or stopped answering; sentences before are as they are."""


@record
class AnswerSource:
    """A source as the language model sees it."""

    number: int
    """As cited: `[SOURCE-1]`."""
    title: str
    language: str
    text: str


@record
class AnswerText:
    """Text as it arrives, not checked yet."""

    text: str


@record
class AnswerRestart:
    """What was sent since the last sentence, and all sentences, were thoughts of the model: discard them."""


@record
class AnswerSentence:
    """A whole sentence, which replaces the text since the sentence before."""

    text: str
    """Without its citations."""
    citations: tuple[int, ...]
    """Numbers of existing sources that it cites, in order."""
    support: SupportStatus
    doubt: Doubt | None
    """Only where it is UNSUPPORTED."""
    found_in: tuple[int, ...]
    """Sources that support it, if it cites none or others."""
    paragraph: bool
    """Does a new paragraph or line begin with it?"""


@record
class AnswerEnd:
    """End of an answer."""

    ending: AnswerEnding
    message: str
    """Details for the asker; empty if there are none."""


AnswerEvent = AnswerText | AnswerRestart | AnswerSentence | AnswerEnd


@record
class StreamEnd:
    """End of a stream of text from a language model."""

    truncated: bool
    """Was the maximum number of tokens reached?"""
    prompt_tokens: int
    completion_tokens: int
