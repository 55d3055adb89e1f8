"""Score texts by grades of a language model."""

from collections.abc import Sequence

import structlog

from freki.operators.ask_llm import TOKENS_A_GRADE, grades_prompt, read_grades
from freki.schemas import NoCompletion
from freki.schemas.index import RerankPair
from freki.streams.ports import Llm, TokenBudget
from freki.streams.retrieve.budget.attempts import StepFailed
from freki.streams.token_estimate import most_tokens

_log = structlog.get_logger(__name__)


class LlmReranker:
    """Makes one request per query, within the token budget of the day.

    Grades are multiples of a tenth and no probabilities: hybrid search orders equal ones.
    """

    name = "llm"

    def __init__(self, llm: Llm, ledger: TokenBudget) -> None:
        self._llm = llm
        self._ledger = ledger

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        """Score pairs of one query, 0..1, or None without a grade. Raises StepFailed if no pair has a grade."""
        if not pairs:
            return []
        prompt = grades_prompt(pairs[0].query, [pair.text for pair in pairs])
        max_tokens = TOKENS_A_GRADE * len(pairs)
        most = most_tokens(prompt, max_tokens)
        if (day := await self._ledger.take(most)) is None:
            raise StepFailed("the language model has no tokens left today: see FREKI_LLM__MAX_TOKENS_DAY")
        (answer,) = await self._llm.complete([prompt], max_tokens=max_tokens, budget_s=budget_s)
        if isinstance(answer, NoCompletion):
            await self._ledger.give_back(most, day=day)
            _log.warning("a language model gave no grades", reason=answer.reason)
            raise StepFailed(answer.gist)
        await self._ledger.give_back(most - answer.prompt_tokens - answer.completion_tokens, day=day)
        scores = read_grades(answer.text, count=len(pairs), truncated=answer.truncated)
        if all(score is None for score in scores):
            raise StepFailed(f"{self._llm.model} gave no grades")
        return scores
