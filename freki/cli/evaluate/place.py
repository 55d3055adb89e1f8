"""Target of an evaluation: a corpus in a separate index, filled through the real topics."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from shutil import rmtree

from freki.cli.bars import bars
from freki.cli.changes import Make, as_is
from freki.cli.context import errors, fail
from freki.cli.receipts import collect, send
from freki.cli.show import building
from freki.cli.show_processes import report
from freki.cli.words import counted
from freki.infra.local.children import Died, Event, NotReady, Restarting
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import read_stack, settings_for
from freki.infra.models import ensure_built
from freki.infra.settings import AuthSettings, Settings, TenantLimitSettings
from freki.schemas import DocumentChange, IndexOutcome, OutcomeStatus, TenantId
from freki.schemas.evaluation import CorpusDocument
from freki.schemas.names import record
from freki.streams.evaluate.corpus import fingerprint_of, missing, roots_of, tenant_of
from freki.streams.wire.connect import open_index, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock
from freki.streams.wire.provision import apply_topics
from freki.streams.wire.rules import fingerprints_of

PATIENCE_S = 600.0
"""Longest wait for the next receipt, in seconds.

On a busy machine a law of 2,000 chunks takes longer than publishers wait, and a missing receipt ends the evaluation."""


@record
class EvaluationTarget:
    """Index and tenant that questions are sent to."""

    settings: Settings
    tenant: TenantId
    described: str
    notes: tuple[str, ...]
    """Remarks on the indexing of the documents."""


@asynccontextmanager
async def open_place(
    settings: Settings,
    corpus: Sequence[CorpusDocument] | None,
    *,
    running: bool,
    fresh: bool,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[EvaluationTarget]:
    """Open an index whose answers can only come from the corpus.

    By default this is a local stack with a separate state directory, which later evaluations of the same documents
    reuse. With `running` it is the index of the settings, where word statistics cover all tenants. Without a corpus it
    is the settings' tenant. `environment` adds variables to the separate stack.
    """
    if corpus is None:
        yield EvaluationTarget(
            settings=settings, tenant=TenantId(settings.tenant), described="the running index", notes=()
        )
        return
    tenant = tenant_of(fingerprint_of(corpus), sorted(fingerprints_of(settings)))
    async with AsyncExitStack() as opened:
        here = (
            settings
            if running
            else await opened.enter_async_context(_own_stack(settings, tenant, environment, fresh=fresh))
        )
        yield EvaluationTarget(
            settings=here,
            tenant=tenant,
            described=f"tenant {tenant} of the running Freki; word statistics cover all tenants"
            if running
            else f"a separate stack, {here.local.state_dir}",
            notes=await _fill(here, tenant, corpus),
        )


BELIEVED = {f"FREKI_AUTH__{name}": "none" for name in ("JWKS", "ISSUER", "AUDIENCE", "REPLY_TOPIC")}
"""Variables of workers that answer without tokens: who evaluates published all that they hold."""
UNLIMITED = {f"FREKI_LIMITS__{name.upper()}": "none" for name in TenantLimitSettings.model_fields}
"""Variables of workers that count for no tenant: what a limit refuses would be measured as not found."""


@asynccontextmanager
async def _own_stack(
    settings: Settings, tenant: TenantId, environment: Mapping[str, str] | None, *, fresh: bool
) -> AsyncIterator[Settings]:
    with building() as progress:
        await ensure_built(settings.models, progress)
    directory = settings.local.state_dir.expanduser().absolute() / "evaluation" / tenant
    # Read again: the given settings may already point at a running local stack.
    own = Settings(local=Settings().local.elsewhere(directory), auth=AuthSettings(), folders=())
    if fresh and read_stack(directory) is None:
        rmtree(directory, ignore_errors=True)
    stack = LocalStack(
        own, report=_report_trouble, prepare=apply_topics, environment={**(environment or {}), **BELIEVED, **UNLIMITED}
    )
    async with AsyncExitStack() as opened:
        with errors.status("starting broker, store and workers"):
            await opened.enter_async_context(stack)
        yield settings_for(own, stack.state)


def _report_trouble(event: Event) -> None:
    if isinstance(event, (Died, Restarting, NotReady)):
        report(event)


async def _fill(settings: Settings, tenant: TenantId, corpus: Sequence[CorpusDocument]) -> tuple[str, ...]:
    """Publish documents that are not indexed yet, wait for their receipts, and return remarks on the indexing."""
    wanted = roots_of(corpus, tenant)
    async with open_index(settings, creates=True) as index:
        held = await index.roots(list(wanted))
    changes = missing(wanted, held, tenant=tenant, now=wall_clock())
    if not changes:
        last = max(root.searchable_at for root in held.values()) / 1000
        return (
            f"{counted(len(corpus), 'document')}, indexed until {datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M} UTC",
        )
    refused = [each for each in await _publish(settings, changes) if each.status is OutcomeStatus.REJECTED]
    notes = [f"{counted(len(corpus), 'document')}, {len(changes):,} of them indexed now"]
    if refused:
        notes.append(
            f"rejected: {counted(len(refused), 'document')}, such as {refused[0].document_id}: {refused[0].reason}"
        )
    return tuple(notes)


async def _publish(settings: Settings, changes: Sequence[DocumentChange]) -> list[IndexOutcome]:
    makes: list[Make] = [as_is(change) for change in changes]
    async with open_receipts(settings) as receipts, open_publisher(settings) as publisher:
        with bars() as progress:
            sent = await send(publisher, receipts, makes, total=len(makes), progress=progress)
            outcomes = await collect(receipts, total=sent.changes, progress=progress, patience_s=PATIENCE_S)
    if len(outcomes) < len(changes):
        fail(
            f"no receipt yet for {len(changes) - len(outcomes)} of {counted(len(changes), 'document')}: do workers run?"
        )
    return outcomes
