"""Let a language model rewrite queries, within a time limit and the token budget of the day."""

import asyncio
from collections.abc import Sequence

import structlog

from freki.operators.ask_llm import MAX_TOKENS, WRITTEN, question_prompt, read_questions
from freki.schemas import Completion, NoCompletion, NoticeKind, Prompt, Widening
from freki.schemas.errors import InfraError
from freki.streams.ports import Llm, TokenBudget
from freki.streams.retrieve.budget.attempts import FINISHING, LOOKING_UP, Attempts
from freki.streams.retrieve.parsed_query import ParsedQuery
from freki.streams.token_estimate import most_tokens

_log = structlog.get_logger(__name__)

STEP = "widen"


class Rewriter:
    """Rewrites queries. Fails open: a notice says why a query has no variants of a kind."""

    def __init__(self, llm: Llm, ledger: TokenBudget, *, limit_s: float) -> None:
        self._llm = llm
        self._ledger = ledger
        self.limit_s = limit_s
        """Longest wait for a model."""

    async def __call__(self, asked: Sequence[tuple[ParsedQuery, Widening]], attempts: Attempts) -> list[list[str]]:
        """Ask for one kind of variants of each query, all at once; return the texts of each, which may be none."""
        if not asked:
            return []
        prompts = [_prompt(query, kind) for query, kind in asked]
        days = [await self._pay(query, kind, prompt) for (query, kind), prompt in zip(asked, prompts, strict=True)]
        bought = [prompt for prompt, day in zip(prompts, days, strict=True) if day is not None]
        # The variants have to be searched for, too.
        searching = (*LOOKING_UP, *FINISHING)
        left_s = max(0.0, min(attempts.spare_s(query, before=searching) for query, _ in asked))
        limit_s = min(self.limit_s, left_s)
        answers = iter(await asyncio.gather(*(self._answer(prompt, limit_s) for prompt in bought)))
        rewritten: list[list[str]] = []
        for (query, kind), prompt, day in zip(asked, prompts, days, strict=True):
            if day is None:
                rewritten.append([])
                continue
            answer = next(answers)
            await self._settle(prompt, answer, day)
            rewritten.append(_texts(query, kind, answer))
        return rewritten

    async def _pay(self, query: ParsedQuery, kind: Widening, prompt: Prompt) -> str | None:
        """Reserve the tokens of a prompt, and return their day; or tell the query why it has none."""
        try:
            if (day := await self._ledger.take(most_tokens(prompt, MAX_TOKENS))) is not None:
                return day
            reason = "the tokens of the day are spent, FREKI_LLM__MAX_TOKENS_DAY"
        except InfraError as error:
            _log.warning("no tokens could be reserved", error=repr(error), trace_id=query.trace_id)
            reason = f"the tokens of the day cannot be counted: {error.gist}"
        query.log.notice(STEP, NoticeKind.SKIPPED, f"no {kind.lower()}: {reason}")
        return None

    async def _answer(self, prompt: Prompt, limit_s: float) -> Completion | NoCompletion:
        try:
            # The client counts from the beginning of its call; here the wait for other calls counts too.
            async with asyncio.timeout(limit_s):
                (answer,) = await self._llm.complete([prompt], max_tokens=MAX_TOKENS, budget_s=limit_s)
                return answer
        except TimeoutError:
            reason = "the deadline left no more" if limit_s < self.limit_s else "FREKI_RETRIEVAL__WIDEN_LLM_S"
            late = f"no answer within {limit_s:.1f} s: {reason}"
            return NoCompletion(reason=late, gist=late)

    async def _settle(self, prompt: Prompt, answer: Completion | NoCompletion, day: str) -> None:
        used = answer.prompt_tokens + answer.completion_tokens if isinstance(answer, Completion) else 0
        await self._ledger.give_back(most_tokens(prompt, MAX_TOKENS) - used, day=day)


def is_written(kind: Widening) -> bool:
    """Return whether a language model writes variants of this kind."""
    return kind in WRITTEN


def _prompt(query: ParsedQuery, kind: Widening) -> Prompt:
    return question_prompt(query.text, kind, language=query.analysis.language)


def _texts(query: ParsedQuery, kind: Widening, answer: Completion | NoCompletion) -> list[str]:
    if isinstance(answer, NoCompletion):
        _log.warning("a query has no variants", kind=kind, reason=answer.reason, trace_id=query.trace_id)
        query.log.notice(STEP, NoticeKind.SKIPPED, f"no {kind.lower()}: {answer.gist}")
        return []
    texts = read_questions(answer.text, truncated=answer.truncated)
    if not texts:
        cut = " before its maximum of tokens" if answer.truncated else ""
        query.log.notice(STEP, NoticeKind.SKIPPED, f"no {kind.lower()}: the language model gave no usable line{cut}")
    return texts
