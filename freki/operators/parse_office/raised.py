"""Raised and lowered digits: those of a note or a power, which joined with the number before would be another one."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple
from xml.etree.ElementTree import Element


class Piece(NamedTuple):
    """Text at one height."""

    shifted: bool
    """Whether it is raised or lowered."""
    element: Element
    where: Literal["text", "tail"] = "text"


def part_numbers(pieces: Iterable[Piece]) -> None:
    """Write a space between digits that follow each other at different heights: `500 1 Euro`, not `5001 Euro`."""
    for piece in list(_seams(pieces)):
        setattr(piece.element, piece.where, f" {getattr(piece.element, piece.where)}")


def _seams(pieces: Iterable[Piece]) -> Iterator[Piece]:
    before, was_shifted = "", False
    for piece in pieces:
        text = getattr(piece.element, piece.where) or ""
        if text and piece.shifted != was_shifted and before.isdigit() and text[0].isdigit():
            yield piece
        before, was_shifted = (text[-1], piece.shifted) if text else (before, was_shifted)
