"""Answers that a language model writes from the hits of a query, checked sentence by sentence."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import Final, cast

import structlog

from freki.operators.ask_llm import AnswerReader, Piece, Restart, Sentence, Stop, answer_prompt
from freki.operators.support import Statement, doubt_of
from freki.schemas import ContextHit, ContextResult, NoCompletion
from freki.schemas.answer import (
    AnswerEnd,
    AnswerEnding,
    AnswerEvent,
    AnswerRestart,
    AnswerSentence,
    AnswerSource,
    AnswerText,
    Doubt,
    StreamEnd,
    SupportStatus,
)
from freki.schemas.answer_marks import HitMarks
from freki.schemas.errors import InfraError
from freki.streams.marking import marks_of
from freki.streams.ports import StreamingLlm, TokenBudget
from freki.streams.statement import statement
from freki.streams.token_estimate import most_tokens

_UNKNOWN: Final = "und"

_log = structlog.get_logger(__name__)


class Answerer:
    """Writes answers by a language model, within the token budget of the day."""

    def __init__(self, llm: StreamingLlm | None, ledger: TokenBudget, *, max_tokens: int) -> None:
        """Create; llm: None if none is configured."""
        self._llm = llm
        self._ledger = ledger
        self._max_tokens = max_tokens

    async def answer(self, question: str, result: ContextResult) -> AsyncIterator[AnswerEvent]:
        """Yield the answer to a question from the sources of its result; the last event is AnswerEnd."""
        sources = sources_of(result)
        if self._llm is None or not sources:
            yield _end(AnswerEnding.NO_MODEL if self._llm is None else AnswerEnding.NO_SOURCES)
            return
        language = result.analysis.language if result.analysis else _UNKNOWN
        prompt = answer_prompt(question, sources, language=language)
        most = most_tokens(prompt, self._max_tokens)
        day = await self._reserve(most)
        if isinstance(day, AnswerEnd):
            yield day
            return
        used, ended, stopped = most, None, False
        written = self._llm.stream(prompt, max_tokens=self._max_tokens)
        try:
            async for event in _read(written, _Check(sources, language)):
                if isinstance(event, StreamEnd | NoCompletion):
                    ended = event
                else:
                    yield event
                    stopped = isinstance(event, AnswerEnd)
            if isinstance(ended, StreamEnd):
                used = ended.prompt_tokens + ended.completion_tokens
        finally:
            await self._ledger.give_back(most - used, day=day)
        if not stopped:
            yield _ending(ended)

    async def _reserve(self, tokens: int) -> str | AnswerEnd:
        """Reserve tokens, and return their day; otherwise return the end of an answer that cannot begin."""
        try:
            day = await self._ledger.take(tokens)
        except InfraError as error:
            _log.warning("no tokens could be reserved", error=repr(error))
            return _end(AnswerEnding.FAILED, error.gist)
        return day or _end(AnswerEnding.NO_BUDGET, "see FREKI_LLM__MAX_TOKENS_DAY")

    def marks(self, question: str, result: ContextResult) -> list[HitMarks]:
        """Return where the words of a question stand in its hits."""
        return marks_of(question, result)


async def _read(
    written: AsyncIterator[str | StreamEnd | NoCompletion], check: "_Check"
) -> AsyncIterator[AnswerEvent | StreamEnd | NoCompletion]:
    """Yield the events of an answer, and the end of the stream before the last sentence; AnswerEnd is the last."""
    reader = AnswerReader()
    # The model must not go on writing what nobody reads.
    async with aclosing(cast("AsyncGenerator[str | StreamEnd | NoCompletion]", written)) as pieces:
        async for piece in pieces:
            if isinstance(piece, str):
                found = reader.feed(piece)
            else:
                yield piece
                found = reader.finish(truncated=isinstance(piece, NoCompletion) or piece.truncated)
            for each in found:
                event = check.event_of(each)
                yield event
                if isinstance(event, AnswerEnd):
                    return


def _ending(ended: StreamEnd | NoCompletion | None) -> AnswerEnd:
    if isinstance(ended, StreamEnd):
        return _end(AnswerEnding.TRUNCATED if ended.truncated else AnswerEnding.COMPLETE)
    if ended is None:
        return _end(AnswerEnding.FAILED)
    _log.warning("a language model gave no whole answer", reason=ended.reason)
    return _end(AnswerEnding.FAILED, ended.gist)


def sources_of(result: ContextResult) -> list[AnswerSource]:
    """Return the hits of a result that its context had room for, each with its section or neighbours, best first."""
    # Further chunks are no sources; where only these had room, all hits are, as where nothing had.
    fitting = {citation.chunk_id for citation in result.citations if not citation.expansion}
    return [
        AnswerSource(
            number=hit.rank,
            title=" > ".join([hit.name, *hit.heading_path]),
            language=hit.language,
            text=_text_of(hit),
        )
        for hit in result.hits
        if hit.chunk_id in fitting or not fitting
    ]


def _text_of(hit: ContextHit) -> str:
    if hit.parent is not None and hit.text in hit.parent.text:
        return hit.parent.text
    return "\n".join([*(part.text for part in hit.before), hit.text, *(part.text for part in hit.after)])


def _end(ending: AnswerEnding, message: str = "") -> AnswerEnd:
    return AnswerEnd(ending=ending, message=message)


class _Check:
    """Compares sentences with their sources."""

    def __init__(self, sources: Iterable[AnswerSource], language: str) -> None:
        self._language = language
        self._sources: Mapping[int, tuple[str, Statement]] = {
            source.number: (source.language, statement(f"{source.title}\n{source.text}", source.language))
            for source in sources
        }

    def event_of(self, found: Piece | Restart | Sentence | Stop) -> AnswerEvent:
        """Return the event that tells of a part of the answer."""
        if isinstance(found, Piece):
            return AnswerText(text=found.text)
        if isinstance(found, Restart):
            return AnswerRestart()
        if isinstance(found, Sentence):
            return self._checked(found)
        return _end(AnswerEnding.NO_ANSWER if found.no_answer else AnswerEnding.RAMBLED)

    def _checked(self, sentence: Sentence) -> AnswerSentence:
        cited = tuple(number for number in sentence.citations if number in self._sources)
        doubt, compared = self._doubt(sentence.text, cited)
        found_in: tuple[int, ...] = ()
        if doubt is not None or not cited:
            others = (number for number in self._sources if number not in cited)
            found_in = tuple(number for number in others if self._doubt(sentence.text, (number,))[0] is None)
        if cited:
            doubt = Doubt.ELSEWHERE if found_in else doubt
        elif sentence.citations:
            doubt = Doubt.CITATION
        elif found_in:
            doubt = None
        passed = SupportStatus.SUPPORTED if compared else SupportStatus.UNCHECKED
        return AnswerSentence(
            text=sentence.text,
            citations=cited,
            support=passed if doubt is None else SupportStatus.UNSUPPORTED,
            doubt=doubt,
            found_in=found_in,
            paragraph=sentence.paragraph,
        )

    def _doubt(self, text: str, numbers: tuple[int, ...]) -> tuple[Doubt | None, bool]:
        """Return the doubt, and whether words could be compared, with the sources of these numbers, or with all.

        Words are compared where a source is in the language of the question, in which the answer should be.
        """
        chosen = [self._sources[number] for number in numbers] or list(self._sources.values())
        same = [(language, source) for language, source in chosen if self._comparable(language)]
        language = self._language if self._language != _UNKNOWN else chosen[0][0]
        sources = [source for _, source in chosen]
        return doubt_of(statement(text, language), sources, language=language, words=bool(same)), bool(same)

    def _comparable(self, language: str) -> bool:
        return _UNKNOWN in {language, self._language} or language == self._language
