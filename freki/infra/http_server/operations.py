"""Routes for operators: state of all parts, receipts as they come, dead letters and their replay."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Annotated, Final, Protocol

import structlog
from fastapi import Depends, FastAPI, Query
from pydantic import Field, TypeAdapter
from starlette.responses import StreamingResponse

from freki.infra.api.callers import Caller
from freki.infra.http_server.api import HttpApi
from freki.infra.http_server.bodies import Body
from freki.infra.http_server.events import MEDIA_TYPE, event, streamed
from freki.schemas import IndexOutcome
from freki.schemas.errors import InfraError
from freki.schemas.operations import LetterGroup, Overview, ReplayResult

MOST_LETTERS = 1000
ENDED: Final = (
    "your token is no longer valid, or you are no operator any more: open the receipts again with a valid one"
)
_RECEIPT = TypeAdapter(IndexOutcome)
_log = structlog.get_logger(__name__)


class Operations(Protocol):
    """What the routes call."""

    async def overview(self) -> Overview:
        """Return the state of all parts."""

    async def letters(self, *, everything: bool) -> list[LetterGroup]:
        """Return the dead letters by cause; everything: also those sent again or superseded."""

    async def replay(self, names: Sequence[str], *, by: str) -> list[ReplayResult]:
        """Send the records of dead letters again; by: who does it, for the audit log."""

    def receipts(self) -> AbstractAsyncContextManager[AsyncIterator[IndexOutcome]]:
        """Open the receipts from now on: once open, none is missed. Raises InfraError."""


class Replay(Body):
    """Dead letters whose records are to be sent again."""

    letters: tuple[str, ...] = Field(
        min_length=1, max_length=MOST_LETTERS, description="partition/offset of each, as the list shows it"
    )


Everything = Annotated[bool, Query(alias="all", description="Also those sent again or superseded")]


def add_operations(app: FastAPI, api: HttpApi, operations: Operations) -> None:
    """Add the routes. All of them need an operator; the replay is a POST of JSON, which no form of a site can send."""
    Operator = Annotated[Caller, Depends(api.guard.operator)]  # noqa: N806 - a type

    @app.get("/v1/operations/overview", summary="State of stages, workers and generations")
    async def overview(_: Operator) -> Overview:
        return await operations.overview()

    @app.get("/v1/operations/dead-letters", summary="Dead letters by cause")
    async def letters(_: Operator, *, everything: Everything = False) -> list[LetterGroup]:
        return await operations.letters(everything=everything)

    @app.post("/v1/operations/dead-letters/replay", summary="Send the records of dead letters again")
    async def replay(body: Replay, caller: Operator) -> list[ReplayResult]:
        return await operations.replay(body.letters, by=f"serve:{caller.name}")

    @app.get(
        "/v1/operations/receipts",
        summary="Receipts of all tenants as they come",
        response_class=StreamingResponse,
        responses={200: {"content": {MEDIA_TYPE: {}}, "description": "Events: ready, receipt, failed"}},
    )
    async def receipts(caller: Operator) -> StreamingResponse:
        may_go_on = partial(api.guard.is_still_operator, caller)
        return streamed(_events(operations, may_go_on), until=app.state.stopping)


async def _events(operations: Operations, may_go_on: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
    try:
        async with operations.receipts() as receipts:
            yield event("ready", "{}")
            async for receipt in receipts:
                if not await may_go_on():
                    yield event("failed", json.dumps({"detail": ENDED}))
                    return
                yield event("receipt", _RECEIPT.dump_json(receipt).decode())
    except InfraError as error:
        _log.warning("receipts are not read any more", reason=str(error))
        yield event("failed", json.dumps({"detail": str(error)}))
