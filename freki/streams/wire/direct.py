"""The retrieve stage within the process of a server, for calls that do not wait for two topics."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from threadpoolctl import threadpool_limits

from freki.infra.settings import Settings
from freki.infra.telemetry.calls import Calls
from freki.infra.telemetry.endpoint import serving as serving_metrics
from freki.infra.telemetry.metrics import metering
from freki.infra.telemetry.traces import tracing
from freki.schemas.errors import Misconfigured, Unavailable
from freki.streams.gateway import Direct
from freki.streams.observe.meters import Meters
from freki.streams.retrieve.direct import Batches, DirectAsker, DirectDocumentAsker, Mailboxes
from freki.streams.wire import garbage
from freki.streams.wire.background import Background
from freki.streams.wire.from_settings import wall_clock
from freki.streams.wire.health import Health
from freki.streams.wire.parts import Parts
from freki.streams.wire.reload import ReloadableParts

COMPONENT = "serve"
REPORTS = 4
"""Document queries that are answered at a time, as the stage does."""


@asynccontextmanager
async def open_direct(settings: Settings, reloadable: ReloadableParts) -> AsyncIterator[Direct]:
    """Load the models, open the store, and answer as a worker of the retrieve stage does.

    reloadable: gets what takes over changed settings. Raises Misconfigured with a replay window: uses of tokens are
    told by their places on the topic.
    """
    if settings.auth.replay_window_s:
        raise Misconfigured(
            "FREKI_SERVE__DIRECT answers without the topic on which FREKI_AUTH__REPLAY_WINDOW_S finds the uses of a"
            " token: unset one of them"
        )
    # As in a worker: waiting threads of BLAS take cores from store and model.
    threadpool_limits(1, user_api="blas")
    health, mailboxes = Health(), Mailboxes()
    async with AsyncExitStack() as opened:
        tracer = opened.enter_context(tracing(settings.telemetry, COMPONENT))
        meter, registry = opened.enter_context(metering(settings.telemetry, COMPONENT))
        opened.enter_context(serving_metrics(settings.telemetry, registry, health.checks))
        meters = Meters(meter)
        parts = await opened.enter_async_context(Parts(settings, tracer, meters, Calls(meter), mailboxes=mailboxes))
        serving = await parts.open_serving()
        reloadable.add(parts.reloadable.prepare)
        meters.observe_build_info(lambda: parts.described)
        health.opened_direct()
        parts.background.spawn(health.watch(parts.check_store))
        garbage.settle()
        retrieval = settings.retrieval
        queries = Batches(serving.handle, mailboxes.results, most=retrieval.batch_queries, in_flight=retrieval.batches)
        yield Direct(
            asker=DirectAsker(queries, mailboxes, tracer=tracer, content=settings.telemetry.content, now=wall_clock),
            documents=DirectDocumentAsker(
                Batches(serving.report, mailboxes.reports, most=1, in_flight=REPORTS),
                now=wall_clock,
                ended=lambda: _ended(parts.background),
            ),
        )


async def _ended(background: Background) -> None:
    """Raise the failure of a background task, once one has failed."""
    done, _ = await asyncio.wait(background.tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    raise Unavailable("a background task of retrieval ended")
