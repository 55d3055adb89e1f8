"""Keeps the candidates that hold what the question quotes."""

from freki.operators.analyse_query import holds
from freki.schemas import NoticeKind
from freki.streams.retrieve.query_state import QueryState, ScoredChunk, timed


def keep_exact(state: QueryState) -> None:
    """Drop candidates that hold none of the quotations; where all would go, keep them and say so.

    One is enough: what is quoted to be compared seldom stands in one place.
    """
    quoted = state.quoted
    if not quoted or not state.found:
        return
    with timed([state], "exact", lambda _: len(state.found)):
        kept = [found for found in state.found if any(holds(_texts(found), phrase) for phrase in quoted)]
    if not kept:
        phrases = ", ".join(f"„{phrase}“" for phrase in quoted)
        state.notice("exact", NoticeKind.UNMET, f"none of the {len(state.found)} best candidates holds {phrases}")
    elif len(kept) < len(state.found):
        message = f"{len(state.found) - len(kept)} candidates lack what the question quotes"
        state.notice("exact", NoticeKind.DROPPED, message)
        state.keep_only("exact", "it lacks what the question quotes", kept)
        state.left("exact")


def _texts(found: ScoredChunk) -> tuple[str, ...]:
    return (found.content.text, found.content.context, found.root.name, *found.content.heading_path)
