"""Joining of sections that are too small for a chunk of their own with their neighbours."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from freki.operators.chunk.leaves import Rules
from freki.operators.chunk.sections import DocumentSection
from freki.operators.chunk.segments import Segment, checksums, join, merged, places


class _Unit(NamedTuple):
    """A leaf that may be joined with its neighbours."""

    section: DocumentSection
    owner: DocumentSection
    """The section at or below `section` that has the leaf."""
    whole: Segment
    """The leaf with the headings above it, from that of `section` on; their tokens count where the leaf is small."""

    @property
    def leaf(self) -> Segment:
        return self.owner.leaves[-1]


_Group = list[_Unit]


def join_small_sections(text: str, root: DocumentSection, rules: Rules) -> None:
    """Join sections below the minimum, counted with their headings, with adjacent sections of the same parent.

    Small ones are joined with each other first; what is still too small goes to the section before it, whose headings
    the chunk keeps, else to the one after it. Nothing is joined over the limits. A chunk that begins with a small
    section has the headings of the parent, and its own in its text. Sections of several chunks neither give nor take.
    """
    totals: dict[DocumentSection, int] = {}
    for section in reversed(list(root.walk())):
        for run in _runs(text, section, totals, rules):
            groups = _joined_with_neighbours(text, list(_joined_with_each_other(text, run, rules)), rules)
            for group in groups:
                _apply(text, section, group, rules)
        totals[section] = len(section.leaves) + sum(totals[child] for child in section.children)


def _runs(text: str, section: DocumentSection, totals: dict[DocumentSection, int], rules: Rules) -> Iterator[_Group]:
    """Yield runs of adjacent units: the last leaf before the subsections, and subsections of one leaf."""
    run = [_Unit(section, section, section.leaves[-1])] if section.leaves and section.children else []
    for child in section.children:
        if totals[child] == 1:
            owner = next(each for each in child.walk() if each.leaves)
            run.append(_Unit(child, owner, _with_headings(text, child, owner.leaves[0], rules)))
        elif totals[child]:
            yield run
            run = []
    yield run


def _with_headings(text: str, section: DocumentSection, leaf: Segment, rules: Rules) -> Segment:
    start = section.heading.start if section.heading else leaf.start
    if rules.least.reached_by(leaf) or start == leaf.start:
        return leaf._replace(start=start)
    return _counted(text, leaf._replace(start=start), rules)


def _counted(text: str, segment: Segment, rules: Rules) -> Segment:
    (tokens,) = rules.count_tokens([text[segment.start : segment.end]])
    return segment._replace(tokens=tokens)


def _is_small(unit: _Unit, rules: Rules) -> bool:
    return not rules.least.reached_by(unit.whole)


def _joined_with_each_other(text: str, run: _Group, rules: Rules) -> Iterator[_Group]:
    """Yield groups of adjacent small units, and each other unit by itself."""
    for small, units in groupby(run, key=lambda unit: _is_small(unit, rules)):
        rest = list(units)
        if not small:
            yield from ([unit] for unit in rest)
            continue
        wholes = [unit.whole for unit in rest]
        marks = checksums(text, wholes)
        groups = join(wholes, marks=marks, low=rules.least, high=rules.high, limit=rules.limit)
        yield from (rest[place] for place in places(wholes, groups))


def _joined_with_neighbours(text: str, groups: Sequence[_Group], rules: Rules) -> list[_Group]:
    """Join groups that are still too small with the one before, else the one after."""
    done: list[_Group] = []
    for group in groups:
        before = done[-1] if done else None
        if before and (_lacks(text, group, rules) or _lacks(text, before, rules)) and _fit(text, before + group, rules):
            done[-1] = before + group
        else:
            done.append(group)
    return done


def _lacks(text: str, group: _Group, rules: Rules) -> bool:
    return all(_is_small(unit, rules) for unit in group) and not rules.least.reached_by(_span(text, group, rules))


def _fit(text: str, group: _Group, rules: Rules) -> bool:
    return rules.limit.holds(_span(text, group, rules))


def _span(text: str, group: _Group, rules: Rules) -> Segment:
    """Return the leaf of a group: with the headings of its first unit only if that is small and others follow."""
    first = group[0].whole if len(group) > 1 and _is_small(group[0], rules) else group[0].leaf
    if len(group) == 1:
        return group[0].whole if _is_small(group[0], rules) else first
    return _counted(text, merged([first, *(unit.whole for unit in group[1:])]), rules)


def _apply(text: str, section: DocumentSection, group: _Group, rules: Rules) -> None:
    """Give the leaf of a group to its first unit."""
    if len(group) == 1:
        return
    first, *others = group
    leaf = _span(text, group, rules)
    if _is_small(first, rules) and first.section is not section:
        first.owner.titles = section.titles
    first.owner.leaves[-1] = leaf
    for unit in others:
        unit.owner.leaves = []
