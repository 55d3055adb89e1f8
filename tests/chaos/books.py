"""What was published, by document, and what answers and receipts must say because of it."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from freki.schemas import EVERYONE, ContextResult, DocumentChange, IndexOutcome, OutcomeStatus
from tests.chaos.changes import ASKER, SYNTHETIC, Step

CLOCK_SLACK_MS = 2
WORD = re.compile(r"\w+")
VISIBLE = {OutcomeStatus.INDEXED, OutcomeStatus.UNCHANGED, OutcomeStatus.DELETED}
"""Receipts after which nobody may see anything older."""

Due = tuple[str, int, int]
"""A receipt that must come: document, version (0: bare tombstone), place of the state for a bare tombstone."""


@dataclass(slots=True)
class State:
    """One state of a document, as it was published."""

    version: int
    """0 of a bare tombstone."""
    content: str | None
    """None: the document is gone."""
    principals: tuple[str, ...] = ()
    sent_ms: tuple[int, int] = (0, 0)
    """The clock before and after it was sent."""
    words: str = field(init=False)

    def __post_init__(self) -> None:
        self.words = spaced(self.content or "")

    @property
    def is_synthetic(self) -> bool:
        """Are all paragraphs ours? Then chunks hold the text as it was published; recorded ones have markup."""
        return all(paragraph.startswith(SYNTHETIC) for paragraph in (self.content or "").split("\n\n"))

    def holds(self, text: str) -> bool:
        """Tell whether a chunk may have this text: parsers leave out parts of recorded documents, but add no word."""
        if spaced(text) in self.words:
            return True
        return not self.is_synthetic and set(WORD.findall(text)) <= set(WORD.findall(self.words))


class Books:
    """Every state that was published, in order, and what readers must see at least."""

    def __init__(self) -> None:
        self.states: dict[str, list[State]] = {}
        self.due: set[Due] = set()
        self.changes = 0
        self.answers = 0
        self.hits = 0
        self.receipts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.strange: list[str] = []
        """Receipts that no change explains."""
        self._least: dict[str, int] = {}

    def publish(self, step: Step, now_ms: int) -> State:
        """Note a change, before it is sent: from then on readers may see it."""
        states = self.states.setdefault(step.document_id, [])
        self.changes += 1
        if not isinstance(step, DocumentChange):
            states.append(State(0, None, sent_ms=(now_ms, 2**62)))
            self.due.add((step.document_id, 0, len(states) - 1))
            return states[-1]
        if not states or states[-1].version != step.version:
            content = step.content if isinstance(step.content, str) else None
            states.append(State(step.version, content, step.principals))
        self.due.add((step.document_id, step.version, 0))
        return states[-1]

    def least(self) -> Mapping[str, int]:
        """Give the place of the oldest state of each document that an answer from now on may show."""
        return dict(self._least)

    def receive(self, outcome: IndexOutcome) -> None:
        """Note a receipt."""
        self.receipts[outcome.status] += 1
        document, version = str(outcome.document_id), outcome.version
        place = self._place_of(outcome)
        if place is None:
            self.strange.append(f"receipt for {document} version {version}, {outcome.status}: never published")
            return
        self.due.discard((document, version, 0 if version else place))
        if outcome.status in VISIBLE:
            self._least[document] = max(self._least.get(document, 0), place)

    def judge(self, result: ContextResult, least: Mapping[str, int]) -> None:
        """Compare an answer with what was published; `least` as it was before the question was asked."""
        self.answers += 1
        versions: dict[str, int] = {}
        for hit in result.hits:
            self.hits += 1
            document = str(hit.document_id)
            said = f"{document} version {hit.version}"
            if versions.setdefault(document, hit.version) != hit.version:
                self._wrong(result, f"{said} beside version {versions[document]}")
                continue
            place = self._place(document, hit.version)
            if place is None:
                self._wrong(result, f"{said} was never published")
                continue
            state, floor = self.states[document][place], least.get(document, 0)
            if place < floor:
                newer = self.states[document][floor]
                what = f"version {newer.version or 'of a bare tombstone'}{'' if newer.content else ', a deletion,'}"
                self._wrong(result, f"{said}, though {what} was visible before the question")
            texts = [
                hit.text,
                *(part.text for part in (*hit.before, *hit.after, *([hit.parent] if hit.parent else []))),
            ]
            for text in texts:
                if not state.holds(text):
                    self._wrong(result, f"{said} never held the text {text[:80]!r}")
            if not {EVERYONE, ASKER} & set(state.principals):
                self._wrong(result, f"{said} may be read by {state.principals} only")
        for document, version in versions.items():
            place = self._place(document, version)
            if place is not None:
                self._least[document] = max(self._least.get(document, 0), place)

    def _wrong(self, result: ContextResult, what: str) -> None:
        self.wrong.append(f"question {result.query_id}: {what}")

    def _place(self, document: str, version: int) -> int | None:
        states = self.states.get(document, [])
        places = (place for place, state in enumerate(states) if version and state.version == version)
        return next(places, None)

    def _place_of(self, outcome: IndexOutcome) -> int | None:
        """Find the state that a receipt is for; that of a bare tombstone by the time when it was recorded."""
        document = str(outcome.document_id)
        if outcome.version:
            return self._place(document, outcome.version)
        for place, state in enumerate(self.states.get(document, [])):
            began, ended = state.sent_ms
            if not state.version and began - CLOCK_SLACK_MS <= outcome.recorded_at <= ended + CLOCK_SLACK_MS:
                return place
        return None


def spaced(text: str) -> str:
    """Write a text with single spaces, so that it can be found however its lines were broken."""
    return " ".join(text.split())
