"""Breadcrumbs and contexts: the lines before the text of a chunk that are embedded with it."""

import re
from collections.abc import Sequence
from hashlib import blake2b

from freki.schemas import Chunk

VERSION = 1
"""Increment it when the same chunk gets another breadcrumb, or its context is joined otherwise."""
MAX_CHARS = 200
NAME_CHARS = 80
_ARROW = " > "
_GAP = "…"
_ABBREVIATION = re.compile(r" \([^()]{1,30}\)$")


def breadcrumb(revision_name: str, chunk: Chunk) -> str:
    """Return document name and headings as one line of at most 200 characters, such as `BGB > Buch 2 > § 535`.

    The name comes first and is cut to 80 characters, or to what headings leave, keeping an abbreviation in brackets at
    its end; where the headings do not fit, outer ones are replaced by `…`. An outermost heading that is a prefix of the
    name is left out, and one that begins with the name replaces it: `Bürgerliches Gesetzbuch (BGB)` is more specific
    than `Bürgerliches Gesetzbuch`.
    """
    name = " ".join(revision_name.split())
    headings = [heading for heading in chunk.heading_path if heading]
    if headings and headings[0].startswith(name):
        name = headings.pop(0)
    elif headings and name.startswith(headings[0]):
        del headings[0]
    kept: list[str] = []
    room = MAX_CHARS - len(_cut_name(name, NAME_CHARS))
    for heading in reversed(headings):
        gap = len(_ARROW + _GAP) if len(kept) + 1 < len(headings) else 0
        if len(_ARROW) + len(heading) + gap > room:
            break
        kept.insert(0, heading)
        room -= len(_ARROW) + len(heading)
    if headings and not kept:
        gap = len(_ARROW + _GAP) if len(headings) > 1 else 0
        kept = [_cut(headings[-1], room - len(_ARROW) - gap)]
    rest = [_GAP, *kept] if len(kept) < len(headings) else kept
    # A long name says at its end which of many like it this one is.
    name = _cut_name(name, MAX_CHARS - sum(len(_ARROW) + len(part) for part in rest))
    return _ARROW.join(part for part in [name, *rest] if part)


def joined(place: str, explained: str, written: str) -> str:
    """Return a context: breadcrumb, explained abbreviations with the header of a table, and text written by a model.

    Each argument but `explained` is one line or empty.
    """
    return "\n".join(line for line in (place, explained, written) if line)


def context_key(explained: str) -> str:
    """Return the fingerprint of a context without breadcrumb and model text; empty if nothing else is in it.

    explained: abbreviations and the header of a table.
    """
    return f"{blake2b(explained.encode(), digest_size=4).hexdigest()}/" if explained else ""


def written_by(key: str, writer: str) -> str:
    """Return the fingerprint of a context with model text, such as `5f0c9a2d/7e12…`.

    writer: fingerprint of model and prompt.
    """
    return f"{key.partition('/')[0]}/{writer}"


def writer_of(key: str) -> str:
    """Return the writer in the key of a context; empty where it has no model text."""
    return key.partition("/")[2]


def below_place(context: str, *, name: str, headings: Sequence[str]) -> list[str]:
    """Return the lines of a context below its breadcrumb, which one without a document name and headings lacks."""
    lines = context.split("\n") if context else []
    return lines[1:] if name.strip() or any(headings) else lines


def written_in(context: str) -> str:
    """Return the model text of a context that has a writer."""
    return context.rpartition("\n")[2]


def with_context(context: str, text: str) -> str:
    """Return the context followed by the text of a chunk, as it is embedded, analysed and reranked."""
    return f"{context}\n{text}" if context else text


def _cut_name(name: str, size: int) -> str:
    short = _ABBREVIATION.search(name)
    if short is None or len(name) <= size:
        return _cut(name, size)
    return f"{_cut(name[: short.start()], size - len(short[0]))}{short[0]}"


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1].rstrip() + _GAP
