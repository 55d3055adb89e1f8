"""Lets a language model put questions in other words, within a time limit and the tokens of the day."""

import asyncio
from collections.abc import Sequence

import structlog

from freki.operators.ask_llm import MAX_TOKENS, WRITTEN, question_prompt, read_questions
from freki.schemas import Completion, NoCompletion, NoticeKind, Prompt, Widening
from freki.streams.ports import Llm, TokenBudget
from freki.streams.retrieve.budget.attempts import FINISHING, LOOKING_UP, Attempts
from freki.streams.retrieve.query_state import QueryState

_log = structlog.get_logger(__name__)

STAGE = "widen"
_CHARS_A_TOKEN = 3
"""For what a call will take at most."""


class Rewriter:
    """Fails open: a notice says why a question has no such variants."""

    def __init__(self, llm: Llm, ledger: TokenBudget, *, limit_s: float) -> None:
        self._llm = llm
        self._ledger = ledger
        self._limit_s = limit_s

    async def __call__(
        self, asked: Sequence[tuple[QueryState, Widening]], attempts: Attempts
    ) -> list[tuple[QueryState, Widening, list[str]]]:
        """Ask for each kind that each state wants, all at once; give the texts, none where there is no good one."""
        if not asked:
            return []
        prompts = [_prompt(state, kind) for state, kind in asked]
        paid = [await self._ledger.take(_most(prompt)) for prompt in prompts]
        bought = [prompt for prompt, has in zip(prompts, paid, strict=True) if has]
        # What they give has to be searched for as well.
        searching = (*LOOKING_UP, *FINISHING)
        limit_s = min(self._limit_s, *(attempts.spare_s(state, before=searching) for state, _ in asked))
        answers = iter(await asyncio.gather(*(self._answer(prompt, limit_s) for prompt in bought)))
        rewritten = []
        for (state, kind), prompt, has in zip(asked, prompts, paid, strict=True):
            if not has:
                state.notice(STAGE, NoticeKind.SKIPPED, _unpaid(kind))
                continue
            answer = next(answers)
            await self._settle(prompt, answer)
            rewritten.append((state, kind, _texts(state, kind, answer)))
        return rewritten

    async def _answer(self, prompt: Prompt, limit_s: float) -> Completion | NoCompletion:
        try:
            # The client counts from when a call begins; here waiting for others counts too.
            async with asyncio.timeout(limit_s):
                (answer,) = await self._llm.complete([prompt], max_tokens=MAX_TOKENS, budget_s=limit_s)
                return answer
        except TimeoutError:
            late = f"no answer within {limit_s:.1f} s: FREKI_RETRIEVAL__WIDEN_LLM_S"
            return NoCompletion(reason=late, gist=late)

    async def _settle(self, prompt: Prompt, answer: Completion | NoCompletion) -> None:
        used = answer.prompt_tokens + answer.completion_tokens if isinstance(answer, Completion) else 0
        await self._ledger.give_back(_most(prompt) - used)


def is_written(kind: Widening) -> bool:
    """Tell whether a language model writes variants of this kind."""
    return kind in WRITTEN


def _prompt(state: QueryState, kind: Widening) -> Prompt:
    return question_prompt(state.query_variants[0].text, kind, language=state.analysis.language)


def _most(prompt: Prompt) -> int:
    return (len(prompt.system) + len(prompt.user)) // _CHARS_A_TOKEN + MAX_TOKENS


def _unpaid(kind: Widening) -> str:
    return f"no {kind.lower()}: the tokens of the day are spent, FREKI_LLM__MAX_TOKENS_DAY"


def _texts(state: QueryState, kind: Widening, answer: Completion | NoCompletion) -> list[str]:
    if isinstance(answer, NoCompletion):
        _log.warning("a question has no variants", kind=kind, reason=answer.reason, trace_id=state.trace_id)
        state.notice(STAGE, NoticeKind.SKIPPED, f"no {kind.lower()}: {answer.gist}")
        return []
    texts = read_questions(answer.text)
    if not texts:
        state.notice(STAGE, NoticeKind.SKIPPED, f"no {kind.lower()}: the language model gave no usable line")
    return texts
