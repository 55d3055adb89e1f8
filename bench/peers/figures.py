"""Summary of the measurements: medians over the rounds, and ratios to Freki in the same round."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np

from bench.peers.data import SearchSet
from bench.peers.job import Figures
from freki.operators.evaluate import judge_rankings
from freki.operators.evaluate.figures import NDCG
from freki.schemas.names import record

UPDATES = "updates"
FREKI = "freki"


@record
class Result:
    """Result of one process."""

    round: int
    system: str
    task: str
    """Name of a set, or `updates`."""
    figures: Figures


@record
class Figure:
    """Value of a system and its ratio to Freki's."""

    value: float
    ratio: float | None
    """Median over the rounds of the ratio to Freki; None for Freki itself, or if Freki's value is 0."""


@record
class Line:
    """Row of the table for one system."""

    system: str
    way: str
    """Search method; empty if search is not measured."""
    figures: Mapping[str, Figure]
    error: str = ""
    """Reason for missing figures; empty: none."""


Read = Callable[[Figures], float]
READS: Mapping[str, Read] = {
    "ingest s": lambda found: found["ingest"]["wall_s"],
    "texts": lambda found: found["ingest"]["embedded"],
    "ingest CPU s": lambda found: found["ingest"]["cpu_s"] + found["ingest"]["store_cpu_s"],
    "edit s": lambda found: found["edit"]["wall_s"],
    "again": lambda found: found["edit"]["embedded"],
    "delete s": lambda found: found["delete"]["wall_s"],
    "left": lambda found: found["after delete"]["left"],
    "missing": lambda found: found["after delete"]["missing"],
    "asked": lambda found: found["watched"]["asked"],
    "hole": lambda found: found["watched"]["hole"],
    "mix": lambda found: found["watched"]["mix"],
    "part": lambda found: found["watched"]["part"],
    "wrong s": lambda found: found["watched"]["longest_wrong_s"],
    "stays wrong": lambda found: found["watched"]["wrong_at_the_end"],
    "peak MiB": lambda found: found["peak_mib"],
}
"""Figures of updates, by column."""


def update_lines(results: Sequence[Result]) -> list[Line]:
    """Summarise the measurements of updates."""
    rounds = _by_system(result for result in results if result.task == UPDATES)
    return [
        _line(system, "", found, {name: _each(rounds, read) for name, read in READS.items()})
        for system, found in rounds.items()
    ]


def search_lines(results: Sequence[Result], asked: SearchSet) -> list[Line]:
    """Summarise the measurements on a set, one row per search method."""
    rounds = _by_system(_judged(result, asked) for result in results if result.task == asked.name)
    return [
        _line(system, way, found, _search_figures(rounds, system, way))
        for system, found in rounds.items()
        for way in next((figures["ways"] for figures in found.values() if "ways" in figures), [""])
    ]


def _search_figures(
    rounds: Mapping[str, Mapping[int, Figures]], system: str, way: str
) -> Mapping[str, Mapping[str, Mapping[int, float]]]:
    """Return the figures of a method, with Freki's figures of the comparable one: with or without reranker."""
    beside = "reranked" if way.endswith("reranked") else "hybrid"
    reads: dict[str, Callable[[str], Read]] = {
        "ingest s": lambda _: lambda found: found["ingest"]["wall_s"],
        "p50 ms": lambda name: lambda found: 1000 * float(np.percentile(found["ways"][name]["seconds"], 50)),
        "p95 ms": lambda name: lambda found: 1000 * float(np.percentile(found["ways"][name]["seconds"], 95)),
        "CPU ms": lambda name: lambda found: 1000 * found["ways"][name]["cpu_s"] / len(found["ways"][name]["seconds"]),
        NDCG: lambda name: lambda found: found["ways"][name][NDCG],
        "peak MiB": lambda _: lambda found: found["peak_mib"],
    }
    return {
        name: {
            system: _read(rounds[system], read(way)),
            FREKI: _read(rounds.get(FREKI, {}), read(way if system == FREKI else beside)),
        }
        for name, read in reads.items()
    }


def _judged(result: Result, asked: SearchSet) -> Result:
    """Add the mean nDCG@10 to the rankings of each method."""
    if "ways" not in result.figures:
        return result
    ways = {}
    for way, found in result.figures["ways"].items():
        judged = judge_rankings(found["rankings"], asked.judgements)  # type: ignore[arg-type] # ids are strings
        ways[way] = {**found, NDCG: fmean(each[NDCG] for each in judged.values())}
    return Result(round=result.round, system=result.system, task=result.task, figures={**result.figures, "ways": ways})


def _by_system(results: Iterable[Result]) -> dict[str, dict[int, Figures]]:
    found: dict[str, dict[int, Figures]] = {}
    for result in results:
        found.setdefault(result.system, {})[result.round] = result.figures
    return found


def _each(rounds: Mapping[str, Mapping[int, Figures]], read: Read) -> dict[str, dict[int, float]]:
    return {system: _read(found, read) for system, found in rounds.items()}


def _read(found: Mapping[int, Figures], read: Read) -> dict[int, float]:
    return {number: read(figures) for number, figures in found.items() if "error" not in figures}


def _line(
    system: str, way: str, found: Mapping[int, Figures], values: Mapping[str, Mapping[str, Mapping[int, float]]]
) -> Line:
    errors = [figures["error"] for figures in found.values() if "error" in figures]
    figures = {
        name: Figure(
            value=median(each[system].values()),
            ratio=None if system == FREKI else _ratio(each[system], each.get(FREKI, {})),
        )
        for name, each in values.items()
        if each[system]
    }
    return Line(system=system, way=way, figures=figures, error=errors[0] if errors and not figures else "")


def _ratio(theirs: Mapping[int, float], ours: Mapping[int, float]) -> float | None:
    ratios = [value / ours[number] for number, value in theirs.items() if ours.get(number)]
    return median(ratios) if ratios else None


def lean(figures: Figures) -> dict[str, Any]:
    """Return the figures without rankings."""
    if "ways" not in figures:
        return figures
    ways = {
        way: {name: value for name, value in found.items() if name != "rankings"}
        for way, found in figures["ways"].items()
    }
    return {**figures, "ways": ways}
