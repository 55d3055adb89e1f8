"""`freki verify`: compare the index with the stream of changes, and mend what differs."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.text import Text

from freki.cli.arguments import LEAST_WAIT_S, finite
from freki.cli.audited import record_command
from freki.cli.comparison import INDEXED_S, Comparison, compare
from freki.cli.context import command, console, load_settings
from freki.cli.receipts import PATIENCE_S
from freki.cli.repeat import Repeated, repeat
from freki.cli.send_nulls import send_nulls
from freki.cli.status import made_otherwise
from freki.cli.terminal import ignoring_output_errors
from freki.cli.words import counted
from freki.infra.local.state import read_stack
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.operators.reconcile import Difference, RepairAction
from freki.schemas import (
    AuditKind,
    OutcomeStatus,
)
from freki.schemas.index import Root
from freki.schemas.names import document_of_key
from freki.streams.feed.repeat import NOT_STORED
from freki.streams.ingest.index.commit import Committer
from freki.streams.ingest.index.reclaim import reclaim
from freki.streams.wire.connect import open_index
from freki.streams.wire.from_settings import topics_of, wall_clock
from freki.streams.wire.rules import fingerprints_of

SHOWN = 50
_BEHIND = (
    f"after {INDEXED_S:g} s records still wait for the stages: if workers get on with them (`freki status`), these"
    " may be changes on their way; verify again before you repair"
)
_UNCERTAIN = (
    "left as it is, since a null value might delete what counts: if its version is 1, or two contents have one version,"
    " publish it again with a higher one, or delete it, and repair again; if a record cannot be decoded,"
    " `freki dead-letters list` says why, and `freki erase` removes it with the document"
)


@command
async def verify(
    *,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Repair each difference: delete what the stream deleted or lacks, reindex what is missing or damaged,"
            " remove orphaned rows",
        ),
    ] = False,
    patience: Annotated[
        float,
        typer.Option(
            help="With --repair: give up after this many seconds without a receipt", min=LEAST_WAIT_S, callback=finite
        ),
    ] = PATIENCE_S,
) -> None:
    """Compare topic and store: documents, versions, content, and each chunk row with its manifest."""
    settings = load_settings()
    async with open_index(settings) as index:
        compared = await compare(settings, index)
        otherwise = await index.count_made_otherwise(fingerprints_of(settings))
        # A reader of the output that ended must not end a repair, here or half way.
        with ignoring_output_errors(console) if repair else nullcontext():
            _show(settings, compared, otherwise)
        if repair and await _repair(settings, index, compared, patience_s=patience):
            # What the stream says of all documents is read again, and is not held twice.
            del compared
            compared = await compare(settings, index)
            _show_differences(compared.differences, "after the repair: ")
    if compared.differences or compared.lost:
        raise typer.Exit(1)


def _show(settings: Settings, compared: Comparison, otherwise: int) -> None:
    console.print(f"{counted(len(compared.stream.expected), 'document')} in the stream")
    console.print(f"{compared.live} live in the index, {compared.deleted} remembered as deleted")
    if rejected := compared.stream.rejected_now:
        console.print(
            f"{counted(rejected, 'document')} whose last change was rejected: `freki dead-letters list` says why"
        )
    if otherwise:
        console.print(Text(made_otherwise(otherwise), style="yellow"), soft_wrap=True)
    if compared.lost:
        console.print(Text(_loss(settings, compared), style="yellow"), soft_wrap=True)
    _show_differences(compared.differences)
    if compared.differences and compared.is_behind:
        console.print(Text(_BEHIND, style="yellow"), soft_wrap=True)


def _show_differences(differences: Sequence[Difference], when: str = "") -> None:
    for difference in differences[:SHOWN]:
        console.print(Text.assemble((difference.name, "bold"), f"  {difference.problem}"), soft_wrap=True)
    if len(differences) > SHOWN:
        console.print(f"… and {len(differences) - SHOWN} more")
    console.print(f"{when}{counted(len(differences), 'difference')}")


def _loss(settings: Settings, compared: Comparison) -> str:
    """Return what happened to the topic, and what to do."""
    count, topic = compared.lost, topics_of(settings).documents.name
    stack = read_stack(settings.local.state_dir.expanduser().absolute())
    is_local = stack is not None and stack.broker == "tansu" and stack.bootstrap == settings.kafka.bootstrap
    cause = (
        "the local broker keeps topics in memory, and was started again"
        if is_local
        else f"topic {topic} was created again, or records were deleted from it, or the index belongs to another one"
        " (FREKI_KAFKA__BOOTSTRAP, FREKI_KAFKA__TOPIC_PREFIX, FREKI_MILVUS__GENERATION)"
    )
    remedy = " With `freki up --kafka` topics survive a restart." if is_local else ""
    return (
        f"the changes of {counted(count, 'document')} are gone from the topics: {cause}. The documents stay searchable,"
        " but can be neither compared nor reindexed. Publish them again: unchanged chunks are not embedded again."
        f" `freki delete` removes what is no longer wanted.{remedy}"
    )


async def _repair(settings: Settings, index: MilvusIndex, compared: Comparison, *, patience_s: float) -> bool:
    """Repair what can be repaired, and say of each document what was done; return whether anything was tried."""
    problems: defaultdict[str, set[RepairAction]] = defaultdict(set)
    for difference in compared.differences:
        problems[difference.name].add(difference.repair)
    by_name = {f"{root.tenant}/{root.document_id}": root for root in compared.roots.values()}
    surplus = [by_name[name] for name, repairs in problems.items() if RepairAction.DELETE in repairs]
    damaged = [name for name, repairs in problems.items() if RepairAction.REINDEX in repairs]
    keys = {name: root_id(*named) for name in damaged if (named := document_of_key(name.encode())) is not None}
    expected = compared.stream.expected
    wanted = {name: expected[key].version for name, key in keys.items() if key in expected}
    committer = Committer(store=index, now=wall_clock)
    await _record(settings, surplus)
    await committer.delete(surplus)
    for root in surplus:
        _say(f"{root.tenant}/{root.document_id}", f"deleted at version {root.version}")
    if wanted:
        asked = {name.encode(): version for name, version in wanted.items()}
        held = {name: compared.roots[keys[name]] for name in wanted if keys[name] in compared.roots}
        above = {name.encode(): root.edition for name, root in held.items()}
        done = await repeat(settings, asked, above=above, patience_s=patience_s)
        for name in wanted:
            _say(name, _result(done, name.encode()))
    for name in (name for name in damaged if name not in wanted):
        _say(name, f"not reindexed: {NOT_STORED}")
    sent = await _send_nulls(
        settings, compared, [name for name, repairs in problems.items() if RepairAction.SEND_NULLS in repairs]
    )
    for name in (name for name, repairs in problems.items() if RepairAction.BY_HAND in repairs):
        _say(name, "left as it is")
    removed = await reclaim(index, committer, now=wall_clock)
    console.print(
        f"repaired: {len(surplus)} deleted, {len(wanted)} sent again, {counted(removed, 'row')} left behind removed"
    )
    return bool(surplus or wanted or sent or removed)


async def _send_nulls(settings: Settings, compared: Comparison, names: Collection[str]) -> bool:
    """Send null values after superseded content, and say of each document where; return whether there was any."""
    sent = await send_nulls(settings, names, rejected=compared.rejected) if names else {}
    for name, partitions in sent.items():
        where = " and ".join(map(str, partitions))
        _say(name, f"superseded content: null value sent to partition {where}" if partitions else _UNCERTAIN)
    return any(sent.values())


async def _record(settings: Settings, surplus: Sequence[Root]) -> None:
    """Write to the audit log what is about to be deleted here; workers record what is reindexed."""
    by_tenant: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for root in surplus:
        by_tenant[root.tenant].append((str(root.document_id), root.version))
    for tenant, documents in sorted(by_tenant.items()):
        await record_command(settings, AuditKind.DELETED, "freki verify --repair", tenant=tenant, documents=documents)


def _result(done: Repeated, key: bytes) -> str:
    if key in done.reasons:
        return f"not reindexed: {done.reasons[key]}"
    outcome = done.by_key.get(key)
    if outcome is None:
        return "sent again, without a receipt yet: `freki status` shows whether workers run"
    if outcome.status is OutcomeStatus.INDEXED:
        return f"reindexed: version {outcome.version}, {counted(outcome.chunks, 'chunk')}, {outcome.embedded} embedded"
    return f"sent again: {outcome.status.lower()}{f', {outcome.reason}' if outcome.reason else ''}"


def _say(name: str, what: str) -> None:
    with ignoring_output_errors(console):
        console.print(Text.assemble((name, "bold"), f"  {what}"), soft_wrap=True)
