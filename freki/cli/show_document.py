"""Show documents of the index in a terminal."""

from collections.abc import Collection, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from freki.cli.receipts import line
from freki.cli.rows import whole_table
from freki.cli.times import NO_TIME, time_of
from freki.cli.words import counted
from freki.operators.breadcrumb import below_place
from freki.schemas import ChunkKind, DocumentEvent, IndexOutcome
from freki.schemas.index import Root
from freki.streams.documents.listing import Page
from freki.streams.documents.view import DocumentView
from freki.streams.wire.cases import Cases

SHOWN_RECEIPTS = 5
SHOWN_CHARACTERS = 120


def show_list(console: Console, page: Page, *, tenant: str, current: Collection[str], cases: Cases) -> None:
    """Print a page of documents."""
    if not page.total:
        console.print(Text(f"no documents of tenant {tenant} meet these conditions", style="yellow"))
        return
    table = whole_table("document", "version", "language", "type", "chunks", "searchable since", box=None)
    table.columns[1].no_wrap = True
    table.columns[4].justify = "right"
    states = [_state(root, current, cases) for root in page.roots]
    if any(states):
        table.add_column("state", style="yellow", overflow="fold")
    for root, state in zip(page.roots, states, strict=True):
        table.add_row(
            Text(root.document_id),
            str(root.version),
            root.language,
            Text(root.media_type),
            "" if root.deleted else str(root.chunks),
            time_of(root.searchable_at),
            *([Text(state)] if any(states) else []),
        )
    console.print(table)
    console.print(f"{len(page.roots)} of {counted(page.total, 'document')} of tenant {tenant}")
    if not page.is_last and page.roots:
        console.print(Text(f"next page: --after '{page.roots[-1].document_id}'", style="dim"), soft_wrap=True)


def show_document(
    console: Console, view: DocumentView, receipts: Sequence[IndexOutcome], *, is_current: bool, cases: Cases
) -> None:
    """Print all that is known of a document."""
    root = view.root
    console.print(Text(root.document_id, style="bold"), soft_wrap=True)
    if root.deleted:
        _say(console, "deleted", f"at version {root.version}, {time_of(root.searchable_at)}")
    else:
        _show_live(console, view, is_current=is_current)
    for name in cases.holding(root):
        _say(console, "held", f"{name}: erasure and retention wait; {cases.holds[name].reason}")
    for name in cases.objecting(root):
        _say(console, "objection", f"{name}: answers leave it out; {cases.objections[name].reason}")
    for receipt in receipts[-SHOWN_RECEIPTS:]:
        console.print(Text.assemble((f"{'receipt':<12} ", "bold"), f"version {receipt.version}  ", line(receipt)))
    if len(receipts) > SHOWN_RECEIPTS:
        console.print(Text(f"… and {len(receipts) - SHOWN_RECEIPTS} earlier ones: `freki documents history`", "dim"))
    if not receipts:
        _say(console, "receipts", "none on the topic any more")


def _show_live(console: Console, view: DocumentView, *, is_current: bool) -> None:
    root = view.root
    made = "these settings" if is_current else "other settings than these: run `freki reindex` for it"
    for name, value in (
        ("name", root.name),
        ("version", f"{root.version}{_edition(root)}"),
        ("source", root.source_uri or "–"),
        ("type", f"{root.media_type}, {counted(root.characters, 'character')}, language {root.language}"),
        ("readers", ", ".join(root.principals) or "nobody: publish it with principals"),
        ("attributes", ", ".join(f"{key}={value}" for key, value in sorted(root.attributes.items())) or "–"),
        ("changed", time_of(root.occurred_at)),
        ("published", time_of(root.recorded_at)),
        ("searchable", time_of(root.searchable_at)),
        ("content", f"SHA-256 {root.content_hash}"),
        ("made by", f"{made}; {root.chunker}, {root.embedder}"),
        ("derived", _derived(view)),
    ):
        _say(console, name, value)
    if view.counts.missing:
        console.print(
            Text(
                f"{counted(view.counts.missing, 'chunk')} without a row: `freki verify --repair` mends that",
                style="red",
            )
        )
    table = Table("chunk", "kind", "characters", "pages", "tokens", "heading and text", box=None, padding=(0, 1))
    for chunk in view.chunks:
        pages = f"{chunk.first_page}–{chunk.last_page}" if chunk.last_page > chunk.first_page else str(chunk.first_page)
        heading = f"{chunk.heading_path[-1]}: " if chunk.heading_path else ""
        text = " ".join(chunk.text.split())
        table.add_row(
            chunk.path,
            chunk.kind.lower(),
            f"{chunk.start}–{chunk.end}",
            pages if chunk.first_page else "",
            str(chunk.tokens),
            Text.assemble((heading, "bold"), text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]} …"),
        )
        for below in below_place(chunk.context, name=root.name, headings=chunk.heading_path):
            table.add_row("", "", "", "", "", Text(below, style="dim"))
    if view.chunks:
        console.print(table)
    if len(view.chunks) < root.chunks:
        console.print(Text(f"{len(view.chunks)} of {counted(root.chunks, 'chunk')}; --chunks 0 shows all", style="dim"))


def show_history(console: Console, events: Sequence[DocumentEvent]) -> None:
    """Print what happened to a document."""
    table = whole_table("at", "what", "version", "")
    for event in events:
        version = str(event.version) if event.version else ""
        table.add_row(time_of(event.at), Text(event.what), version, Text(event.detail))
    console.print(table)


def _say(console: Console, name: str, value: str) -> None:
    console.print(Text.assemble((f"{name:<12} ", "bold"), value), soft_wrap=True)


def _state(root: Root, current: Collection[str], cases: Cases) -> str:
    state = "deleted" if root.deleted else "" if root.fingerprint in current else "other settings"
    held = [f"held: {name}" for name in cases.holding(root)]
    objected = [f"objection: {name}" for name in cases.objecting(root)]
    return ", ".join(filter(None, [state, *held, *objected]))


def _edition(root: Root) -> str:
    """Return how often a version was made; editions on request are numbered by its time."""
    at = time_of(root.edition)
    if at != NO_TIME:
        return f", reindexed on request of {at}"
    return f", repaired {counted(root.edition, 'time')}" if root.edition else ""


def _derived(view: DocumentView) -> str:
    summaries = view.counts.kinds.get(ChunkKind.SUMMARY, 0)
    kinds = ", ".join(f"{count} {kind.lower()}" for kind, count in sorted(view.counts.kinds.items()))
    parts = [f"{counted(view.root.chunks, 'chunk')} ({kinds or 'none'})"]
    parts += [f"{summaries} of them extracts of sections or of the whole"] if summaries else []
    parts += [f"{view.counts.explained} with explained abbreviations"] if view.counts.explained else []
    parts += [f"{view.counts.written} with text by a language model"] if view.counts.written else []
    return ", ".join(parts)
