"""What people who run Freki look at: stages, workers, generations, dead letters."""

from freki.schemas.names import Timestamp, record


@record
class StageLag:
    """Records of a topic that wait for a stage."""

    stage: str
    topic: str
    records: int
    """Records that the topic holds, from its offsets; a compacted one may hold fewer."""
    waiting: int
    oldest_ms: int | None
    """How long the oldest of them waits, in milliseconds; null if none waits or it could not be read."""


@record
class WorkerHealth:
    """What a worker says of itself."""

    name: str
    """Its stages; empty if only its URL is known."""
    url: str
    """Empty while a worker of the local stack is not ready."""
    wrong: tuple[str, ...]
    """Failed checks with their reasons; empty: live and ready."""


@record
class GenerationSize:
    """A generation of the index; sizes are those of the one that the settings name, null for others."""

    name: str
    answers: bool
    documents: int | None = None
    chunks: int | None = None
    deletions: int | None = None
    """Deletions that are remembered."""
    outdated: int | None = None
    """Documents that the settings would make otherwise."""
    last_commit_at: Timestamp | None = None


@record
class Freshness:
    """Time from broker to searchable, since the workers started."""

    changes: int
    p50_s: float
    p95_s: float


@record
class Overview:
    """The state of all parts."""

    at: Timestamp
    stages: tuple[StageLag, ...]
    workers: tuple[WorkerHealth, ...]
    generations: tuple[GenerationSize, ...]
    freshness: Freshness | None
    """Of the workers that answer; null if none of them made a change visible since it started."""
    dead_letters: int | None
    """Records on the topic of dead letters: at most so many are to be settled, as those sent again or superseded, and
    the notes that say so, count too; null if it could not be read."""
    problems: tuple[str, ...]
    """Parts that do not answer, with the reason."""

    @property
    def fine(self) -> bool:
        """Whether all parts answer and all workers are healthy."""
        return not self.problems and not any(worker.wrong for worker in self.workers)


@record
class LetterView:
    """A dead letter, without the value of its record."""

    letter: str
    """Its place: partition/offset."""
    record: str
    """Topic, partition and offset of the record."""
    key: str
    stage: str
    error: str
    message: str
    attempts: int
    replays: int
    died_at: Timestamp
    sent_again: bool
    superseded: bool = False
    """Whether a replay found that a later record of its document made it void."""


@record
class LetterGroup:
    """Dead letters of one cause: the same stage and error, and messages that differ in names and numbers only."""

    stage: str
    error: str
    message: str
    """Of the latest."""
    first_at: Timestamp
    last_at: Timestamp
    letters: tuple[LetterView, ...]
    """Latest first."""


@record
class ReplayResult:
    """What became of the replay of a dead letter."""

    letter: str
    sent: bool
    reason: str = ""
    """Why it was not sent; empty if it was."""
    superseded: bool = False
    """Whether it never needs to be: a later record of its document made it void."""
    sent_before: bool = False
    """Whether it need not be: its record, which may have several letters, was sent again already."""
