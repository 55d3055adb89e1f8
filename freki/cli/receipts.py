"""Send document changes, wait for their receipts and print them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict
from math import ceil
from typing import NamedTuple

from rich.progress import Progress
from rich.text import Text

from freki.cli.changes import Make
from freki.cli.context import console, errors
from freki.cli.rows import print_json
from freki.cli.show import show_error
from freki.cli.words import counted
from freki.schemas import DocumentChange, IndexOutcome, LlmUse, OutcomeStatus
from freki.schemas.avro import UnencodableError
from freki.schemas.errors import Rejected
from freki.streams.client import Publisher, Receipts

PATIENCE_S = 120.0
"""Longest wait for the next receipt, in seconds: longer than a single document takes."""
SHOWN_PROBLEMS = 20
"""Maximum number of problems printed of each kind."""
BATCH_CHANGES = 64
"""Maximum changes published together: enough for few round trips, few enough to hold in memory."""
BATCH_BYTES = 8_000_000
"""Content size that ends a batch of changes, in bytes."""

Record = Callable[[Sequence[DocumentChange]], Awaitable[None]]
"""Writer of what is about to be published."""


class Sent(NamedTuple):
    """Result of publishing."""

    changes: int
    """Number of changes that the broker has stored."""
    unchanged: int
    """Number of documents without a change."""


async def send(
    publisher: Publisher,
    receipts: Receipts | None,
    changes: Iterable[Make],
    *,
    total: int,
    progress: Progress,
    record: Record | None = None,
) -> Sent:
    """Publish changes in order, in batches; print and skip files that cannot be read or sent.

    record: called with each batch before it is published.
    """
    bar = progress.add_task("published", total=total)
    sent = unchanged = size = 0
    batch: list[DocumentChange] = []
    try:
        for make in changes:
            progress.advance(bar)
            # Else nobody could interrupt it while all is unchanged: files are read without a wait.
            await asyncio.sleep(0)
            try:
                change = make()
            except Rejected as error:
                show_error(errors, f"not published: {error}")
                continue
            if change is None:
                unchanged += 1
                continue
            batch.append(change)
            size += len(change.content or b"")
            if len(batch) >= BATCH_CHANGES or size >= BATCH_BYTES:
                sent += await _send(publisher, receipts, batch, record)
                batch, size = [], 0
        sent += await _send(publisher, receipts, batch, record)
    except (asyncio.CancelledError, KeyboardInterrupt):
        _show_interrupted(sent, total)
        raise
    return Sent(sent, unchanged)


def _show_interrupted(sent: int, total: int) -> None:
    """Print what an interrupted command has published."""
    errors.print(
        f"{counted(sent, 'change')} of {total:,} {'was' if sent == 1 else 'were'} published and will be indexed, and"
        f" perhaps up to {BATCH_CHANGES} that were on their way; the same command publishes the rest",
        highlight=False,
        soft_wrap=True,
    )


async def _send(
    publisher: Publisher, receipts: Receipts | None, batch: Sequence[DocumentChange], record: Record | None
) -> int:
    """Publish changes together, or one by one if the broker refuses any; return the number of stored ones."""
    if not batch:
        return 0
    if record is not None:
        await record(batch)
    if receipts is not None:
        for change in batch:
            receipts.expect(change)
    try:
        await publisher.publish(*batch)
    except (Rejected, UnencodableError):
        return sum([await _is_sent(publisher, change) for change in batch])
    return len(batch)


async def _is_sent(publisher: Publisher, change: DocumentChange) -> bool:
    try:
        await publisher.publish(change)
    except (Rejected, UnencodableError) as error:
        show_error(errors, f"not published: {change.document_id}: {error}")
        return False
    return True


async def collect(receipts: Receipts, *, total: int, progress: Progress, patience_s: float) -> list[IndexOutcome]:
    """Collect a receipt for each change; stop early after `patience_s` seconds without one."""
    bar = progress.add_task("answered", total=total)
    outcomes: list[IndexOutcome] = []
    while len(outcomes) < total:
        try:
            outcomes.append(await receipts.next(patience_s=patience_s))
        except TimeoutError:
            break
        progress.advance(bar)
    return outcomes


def show_receipts(outcomes: Sequence[IndexOutcome], *, missing: int, as_json: bool = False) -> bool:
    """Print a summary of the receipts, or each as JSON; return whether every change succeeded."""
    rejected = [outcome for outcome in outcomes if outcome.status is OutcomeStatus.REJECTED]
    if as_json:
        for outcome in outcomes:
            print_json(asdict(outcome))
        if missing:
            errors.print(f"{counted(missing, 'change')} without a receipt yet", highlight=False)
        return not rejected and not missing
    counts = Counter(outcome.status for outcome in outcomes)
    embedded = sum(outcome.embedded for outcome in outcomes)
    chunks = sum(outcome.chunks for outcome in outcomes)
    removed = sum(outcome.removed for outcome in outcomes)
    console.print(
        f"{counted(len(outcomes), 'receipt')}: "
        + ", ".join(f"{counts[status]} {status.lower()}" for status in OutcomeStatus)
    )
    console.print(
        f"{counted(chunks, 'chunk')} in these documents, {embedded:,} embedded, {counted(removed, 'old row')} removed"
    )
    if delays := sorted(delay for outcome in outcomes if (delay := _delay_ms(outcome)) is not None):
        middle, late = (delays[ceil(share * len(delays)) - 1] for share in (0.5, 0.99))
        console.print(f"from read to searchable: p50 {middle / 1000:.2f} s, p99 {late / 1000:.2f} s")
    show_llm([outcome.llm for outcome in outcomes if outcome.llm is not None])
    partly = [outcome for outcome in outcomes if outcome.status is OutcomeStatus.INDEXED and outcome.reason]
    for outcome in [*rejected[:SHOWN_PROBLEMS], *partly[:SHOWN_PROBLEMS]]:
        console.print(line(outcome))
    if len(rejected) > SHOWN_PROBLEMS:
        console.print(f"… and {len(rejected) - SHOWN_PROBLEMS} more; `freki dead-letters list` shows all")
    if missing:
        console.print(
            f"[yellow]{counted(missing, 'change')} without a receipt yet: do workers run? `freki status` shows their"
            " lag[/]"
        )
    return not rejected and not missing


def show_llm(uses: Sequence[LlmUse]) -> None:
    """Print the contexts that a language model wrote, and its tokens."""
    if not uses:
        return
    tokens, cached = sum(use.prompt_tokens for use in uses), sum(use.cached_tokens for use in uses)
    contexts, kept = sum(use.written for use in uses), sum(use.kept for use in uses)
    console.print(
        f"language model: {counted(contexts, 'context')} written, {kept} kept, {counted(tokens, 'token')} read, "
        f"{cached:,} of them from its cache, {sum(use.completion_tokens for use in uses):,} written"
    )
    if missing := sum(use.missing for use in uses):
        reason = next(use.reason for use in uses if use.missing)
        console.print(
            Text(f"{counted(missing, 'context')} missing; publish with --force to have them: {reason}", "yellow")
        )


def line(outcome: IndexOutcome) -> Text:
    """Return the receipt of a change as one line."""
    delay_ms = _delay_ms(outcome)
    delay = "" if delay_ms is None else f"  {delay_ms} ms"
    style = "red" if outcome.status is OutcomeStatus.REJECTED else "green"
    detail = f"  {outcome.embedded} of {counted(outcome.chunks, 'chunk')} embedded, {outcome.removed} removed{delay}"
    return Text.assemble(
        (outcome.status.lower(), style),
        "  ",
        outcome.document_id,
        (f"  {outcome.reason}" if outcome.reason else detail),
    )


def _delay_ms(outcome: IndexOutcome) -> int | None:
    """Return the time from read to searchable; None if the change was searchable before, or never became it."""
    at = outcome.searchable_at
    return None if at is None or at < outcome.received_at else at - outcome.received_at
