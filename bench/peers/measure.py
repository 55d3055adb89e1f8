"""Measure one system in this process: `python -m bench.peers.measure JOB RESULT`, in the system's environment."""

import importlib
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Self

from bench.peers.job import Document, Figures, Job, read_job
from bench.peers.markers import Sighting, marker_of, seen_in
from bench.peers.meter import Meter
from bench.peers.models import Background, Models
from bench.peers.store import serve_store
from bench.peers.system import Place, SearchingSystem, System

WARM_UP = 3
"""Number of uncounted questions beforehand."""
PROBE_PAUSE_S = 0.01
SELF_CONTAINED = frozenset({"freki"})
"""Systems that start their own store."""

_WARM_UP = Document(
    document_id="warm-up.md",
    title="Warm-up",
    language="en",
    version=1,
    text="# Warm-up\n\nThe first document opens models and creates collections.",
)

Open = Callable[[Place], AbstractContextManager[SearchingSystem]]


def main() -> None:
    """Run the job; record a failure as a result."""
    # Such as warnings that the local store returns no timestamp.
    logging.disable(logging.WARNING)
    job_file, result_file = map(Path, sys.argv[1:])
    job = read_job(job_file)
    try:
        figures = measure(job)
    except Exception as error:  # noqa: BLE001 - the table reports any error of a framework
        traceback.print_exc()
        figures = {"error": f"{type(error).__name__}: {error}"[:500]}
    result_file.write_text(json.dumps(figures))


def measure(job: Job) -> Figures:
    """Run the job on an empty index."""
    directory = Path(job.directory)
    open_system: Open = importlib.import_module(f"bench.peers.systems.{job.system}").open_system
    with ExitStack() as opened:
        uri = "" if job.system in SELF_CONTAINED else opened.enter_context(serve_store(job.store_python, directory))
        models = opened.enter_context(Models(opened.enter_context(Background())))
        place = Place(models=models, store_uri=uri, directory=directory, chunk_tokens=job.chunk_tokens)
        system = opened.enter_context(open_system(place))
        meter = opened.enter_context(Meter())
        if job.system not in SELF_CONTAINED:
            models.embed_query("warm up")
        system.ingest([_WARM_UP])
        system.update((), [_WARM_UP.document_id], ())
        measured = Measured(job, system, meter)
        figures = measured.searches() if job.questions else measured.updates(models)
        return {**figures, "peak_mib": meter.peak_mib}


class Measured:
    """System under measurement."""

    def __init__(self, job: Job, system: SearchingSystem, meter: Meter) -> None:
        self._job = job
        self._system = system
        self._meter = meter

    def searches(self) -> Figures:
        """Index a set, then run its queries sequentially with each search method."""
        ingest = self._phase(lambda: self._system.ingest(self._job.documents))
        ways: Figures = {}
        for way in self._system.ways:
            for question in self._job.questions[:WARM_UP]:
                self._system.search(question.text, way=way)
            before = self._meter.now()
            times: list[float] = []
            rankings: dict[str, list[str]] = {}
            for question in self._job.questions:
                started = time.perf_counter()
                hits = self._system.search(question.text, way=way)
                times.append(time.perf_counter() - started)
                rankings[question.question_id] = list(dict.fromkeys(hit.document_id for hit in hits))
            used = self._meter.now().since(before)
            ways[way] = {"seconds": times, "rankings": rankings, "cpu_s": used.cpu_s}
        return {"ingest": ingest, "ways": ways}

    def updates(self, models: Models) -> Figures:
        """Index the first revisions, then edits, then deletions, then edits under concurrent queries."""
        live = {document.document_id: document for document in self._job.documents}
        figures: Figures = {"ingest": self._phase(lambda: self._system.ingest(self._job.documents))}
        figures["after ingest"] = asdict(self._system.leftovers(list(live.values())))

        live |= _by_id(self._job.changed)
        figures["edit"] = self._phase(lambda: self._system.update(self._job.changed, (), list(live.values())))
        figures["after edit"] = asdict(self._system.leftovers(list(live.values())))

        live = {name: document for name, document in live.items() if name not in self._job.gone}
        figures["delete"] = self._phase(lambda: self._system.update((), self._job.gone, list(live.values())))
        figures["after delete"] = asdict(self._system.leftovers(list(live.values())))

        live |= _by_id(self._job.watched)
        with Watch(self._system, models, list(_by_id(self._job.watched))) as watch:
            self._system.update(self._job.watched, (), list(live.values()))
        figures["watched"] = watch.figures()
        figures["after watched"] = asdict(self._system.leftovers(list(live.values())))
        return figures

    def _phase(self, work: Callable[[], None]) -> Figures:
        embedded, before = self._system.embedded, self._meter.now()
        work()
        return {**asdict(self._meter.now().since(before)), "embedded": self._system.embedded - embedded}


class Watch:
    """Thread that queries marked documents repeatedly while they are updated."""

    def __init__(self, system: System, models: Models, watched: Sequence[str]) -> None:
        self._system = system
        self._watched = watched
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._sightings: list[tuple[float, str, Sighting]] = []
        self._errors: list[str] = []
        for name in watched:
            models.keep(marker_of(name))

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def figures(self) -> Figures:
        """Return counts of the states seen, and the longest time that a document was seen wrong."""
        counts = {sighting.value: 0 for sighting in Sighting}
        for _, _, sighting in self._sightings:
            counts[sighting] += 1
        return {
            "asked": len(self._sightings),
            **counts,
            "longest_wrong_s": max((self._longest(name) for name in self._watched), default=0.0),
            "wrong_at_the_end": sum(not sighting.is_right for _, _, sighting in self._sightings[-len(self._watched) :]),
            "errors": self._errors[:3],
        }

    def _longest(self, name: str) -> float:
        """Return the longest time in seconds from a first wrong answer to the next right one, or to the end."""
        longest, since = 0.0, None
        mine = [(at, sighting) for at, which, sighting in self._sightings if which == name]
        for place, (at, sighting) in enumerate(mine, start=1):
            if sighting.is_right or (since is not None and place == len(mine)):
                longest = longest if since is None else max(longest, at - since)
                since = None
            elif since is None:
                since = at
        return longest

    def _ask(self) -> None:
        while not self._stop.is_set():
            self._look()
            time.sleep(PROBE_PAUSE_S)

    def _look(self) -> None:
        for name in self._watched:
            try:
                texts = self._system.within(marker_of(name), name)
            except Exception as error:  # noqa: BLE001 - a query that fails during an update is a finding
                self._errors.append(f"{type(error).__name__}: {error}"[:200])
            else:
                self._sightings.append((time.perf_counter(), name, seen_in(texts, name)))


def _by_id(documents: Sequence[Document]) -> dict[str, Document]:
    return {document.document_id: document for document in documents}


if __name__ == "__main__":
    main()
