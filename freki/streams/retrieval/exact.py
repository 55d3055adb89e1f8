"""Keeps the candidates that hold what the question quotes."""

from freki.operators.analyse_query import holds
from freki.schemas import NoticeKind
from freki.streams.retrieval.trail import Found, Trail, timed


def keep_exact(trail: Trail) -> None:
    """Drop candidates that hold none of the quotations; where all would go, keep them and say so.

    One is enough: what is quoted to be compared seldom stands in one place.
    """
    quoted = trail.quoted
    if not quoted or not trail.found:
        return
    with timed([trail], "exact", lambda _: len(trail.found)):
        kept = [found for found in trail.found if any(holds(_texts(found), phrase) for phrase in quoted)]
    if not kept:
        phrases = ", ".join(f"„{phrase}“" for phrase in quoted)
        trail.notice("exact", NoticeKind.UNMET, f"none of the {len(trail.found)} best candidates holds {phrases}")
    elif len(kept) < len(trail.found):
        message = f"{len(trail.found) - len(kept)} candidates lack what the question quotes"
        trail.notice("exact", NoticeKind.DROPPED, message)
        trail.keep_only("exact", "it lacks what the question quotes", kept)
        trail.left("exact")


def _texts(found: Found) -> tuple[str, ...]:
    return (found.content.text, found.content.context, found.root.name, *found.content.heading_path)
