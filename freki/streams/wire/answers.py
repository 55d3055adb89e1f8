"""Open what writes answers, as the settings say."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from freki.infra.llm.ledger import TokenLedger
from freki.infra.llm.stream import LlmStream
from freki.infra.settings import Settings
from freki.streams.answering import Answerer


@asynccontextmanager
async def open_answerer(settings: Settings) -> AsyncIterator[Answerer]:
    """Open what writes answers, with a language model if the settings name one and want answers."""
    ledger = TokenLedger(settings.llm.ledger, most=settings.llm.max_tokens_day)
    async with AsyncExitStack() as opened:
        wanted = settings.llm.url is not None and settings.llm.answer_tokens > 0
        llm = await opened.enter_async_context(LlmStream(settings.llm)) if wanted else None
        yield Answerer(llm, ledger, max_tokens=settings.llm.answer_tokens)
