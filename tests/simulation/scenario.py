"""What happens in a simulation: scripted operations of producers and askers, and faults."""

from dataclasses import dataclass
from random import Random

from tests.simulation.loop import Style
from tests.simulation.network import Spell

_WORDS = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "larch")


@dataclass(frozen=True, slots=True)
class Put:
    """A document has this content now."""

    at_s: float
    tenant: str
    document: str
    version: int
    paragraphs: tuple[int, ...]
    principals: tuple[str, ...]
    priority: int = 0
    edition: int = 0
    """Of a request to reindex the version; 0: a change as a producer sends it."""

    @property
    def content(self) -> str:
        """Give the text."""
        return "\n\n".join(paragraph(number) for number in self.paragraphs)


@dataclass(frozen=True, slots=True)
class Delete:
    """A document is gone; `tombstone`: a null value that names the version follows."""

    at_s: float
    tenant: str
    document: str
    version: int
    tombstone: bool


@dataclass(frozen=True, slots=True)
class Bare:
    """A null value without a version."""

    at_s: float
    tenant: str
    document: str


@dataclass(frozen=True, slots=True)
class Junk:
    """A record that nobody can read."""

    at_s: float
    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """Changes that count together, or not at all."""

    at_s: float
    changes: tuple[Put | Delete, ...]
    commits: bool
    open_s: float


@dataclass(frozen=True, slots=True)
class Ask:
    """A question for what a paragraph says."""

    at_s: float
    number: int
    tenant: str
    paragraph: int
    principals: tuple[str, ...]


ANYONE = -1
"""A fault that waits for calls hits the worker that makes the last of them."""
WRITES = "writes"
SENDS = "sends"


@dataclass(frozen=True, slots=True)
class Crash:
    """A worker is killed, and another is started in its place."""

    at_s: float
    worker: int
    down_s: float
    calls: int = 0
    """0: at once; else as it begins so many further calls."""
    of: str = WRITES
    """A method of the store, `WRITES` for any that writes, `SENDS` for requests of its producer, or those to a topic:
    `sends:chunks`."""
    key: str = ""
    """Only calls that concern this document, as tenant/document; empty: any."""
    then: "Crash | Pause | None" = None
    """Waits for its calls as soon as this has happened: it may hit the successor."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A worker stands still, and goes on."""

    at_s: float
    worker: int
    for_s: float
    calls: int = 0
    of: str = WRITES
    key: str = ""
    then: "Crash | Pause | None" = None


@dataclass(frozen=True, slots=True)
class Leave:
    """A worker is asked to stop, and another is started in its place."""

    at_s: float
    worker: int
    away_s: float


@dataclass(frozen=True, slots=True)
class Expire:
    """A group takes a worker for dead that is not."""

    at_s: float
    worker: int
    group: str
    calls: int = 0
    of: str = WRITES
    key: str = ""
    then: Crash | Pause | None = None


@dataclass(frozen=True, slots=True)
class Reclaim:
    """A worker passes over all documents for what nobody names any more."""

    at_s: float
    worker: int


UNREADABLE = "the registry does not know the schema yet"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A worker cannot decode changes for a while; what it buries meanwhile its own lane may not have."""

    at_s: float
    worker: int
    for_s: float


@dataclass(frozen=True, slots=True)
class Lose:
    """The store loses rows that live revisions name."""

    at_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Compact:
    """The broker compacts the documents."""

    at_s: float
    dirty: int


@dataclass(frozen=True, slots=True)
class Retain:
    """The broker removes what everybody has read."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Weather:
    """Requests to a place fail for a while."""

    at_s: float
    spell: Spell


Operation = Put | Delete | Bare | Junk | Transaction | Ask
Fault = Crash | Pause | Leave | Expire | Reclaim | Unreadable | Lose | Compact | Retain | Weather


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that a simulation depends on."""

    seed: int
    schedule: int
    """Seed of all that is decided while it runs."""
    style: Style
    workers: tuple[tuple[str, ...], ...]
    partitions: int
    batch_events: int
    idempotent: bool
    bounded: bool
    skew_ms: int | None
    starts_s: float
    """Within how many seconds workers start; who comes after a group has begun takes partitions away from others."""
    session_s: float
    """How long a group waits for the heartbeats of a worker."""
    token_s: float
    """How long embedding takes."""
    slowest_s: float
    """How long a request is under way at most, each way."""
    clocks_ms: tuple[int, ...]
    """How far the clock of each worker is ahead."""
    releases: tuple[int, ...]
    """Which release each worker runs; they cut documents in different ways."""
    request_records: int
    """How many records a producer sends in one request at most."""
    operations: tuple[Operation, ...]
    faults: tuple[Fault, ...]


def paragraph(number: int) -> str:
    """Give a sentence of seven words, two of which only it has."""
    random = Random(number)  # noqa: S311 - its seed is the point
    common = " ".join(random.choice(_WORDS) for _ in range(4))
    return f"Item{number} says {common} mark{number}."
