"""The changes of a run: drawn from its seed, with or without a recorded stream below them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from freki.infra.sources import read_stream
from freki.schemas import EVERYONE, DocumentChange, DocumentId, Operation, TenantId, Timestamp

TENANT = TenantId("chaos")
ASKER = "team-a"
SYNTHETIC = "Absatz z"
"""How paragraphs of ours begin."""
DOCUMENTS = 48
LARGE = 12
"""Of those: documents of several parts."""
SMALL_PARAGRAPHS, LARGE_PARAGRAPHS = (1, 5), (14, 40)
HOT, HOT_SHARE = 6, 0.4
"""So many documents get that share of the changes: several of each are on their way at once."""
READERS: Sequence[tuple[str, ...]] = ((EVERYONE,), (EVERYONE,), (ASKER,), ("team-b",), (ASKER, "team-b"))
MOST_CHARACTERS = 12_000
"""Longer recorded documents are cut: ten parts are as good as two thousand, and do not take minutes."""
CHARACTERS = 2_000
"""Of a change of a run with a recorded stream, on average. Changes of documents of ours have 900, and two cores keep up
with five of them a second; those of a stream of laws have 27,000."""
SYNTHETIC_SHARE = 0.4
"""Of the changes for which a recorded document could be taken."""

LIVE_KINDS = {"edit": 40, "undo": 15, "rights": 15, "again": 8, "delete": 12, "tombstone": 10}
GONE_KINDS = {"edit": 50, "undo": 30, "again": 20}
"""How often each kind of change is drawn, of a document that is there and of one that is not."""


@dataclass(frozen=True, slots=True)
class BareTombstone:
    """A null record without a version."""

    document_id: DocumentId


Step = DocumentChange | BareTombstone


@dataclass(slots=True)
class _Document:
    version: int = 0
    latest: DocumentChange | None = None
    former: list[str] = field(default_factory=list)
    """Contents that it once had."""

    @property
    def content(self) -> str | None:
        content = self.latest.content if self.latest is not None else None
        return content if isinstance(content, str) else None


class Changes:
    """Draws change after change; each document's versions grow.

    With a recorded stream its documents come beside ours, and as many changes as make `characters` a change on average,
    so that the stages keep up with a run of any length.
    """

    def __init__(self, seed: int, data: Path | None = None, *, characters: int = CHARACTERS) -> None:
        self._random = random.Random(f"changes {seed}")  # noqa: S311 - not a secret
        self._documents: dict[str, _Document] = {}
        self._paragraphs = 0
        self._clock = 0
        self._recorded = _recorded(data) if data is not None else None
        self._characters = characters
        self._spare = 0
        """Characters that may still be published."""
        self._ours = [f"d{number:02}" for number in range(DOCUMENTS)]
        self.taken = 0
        """Changes of the recorded stream."""

    def first(self) -> Iterator[Step]:
        """Give what is there before the first fault."""
        for name in self._ours:
            yield self._edit(name)

    def next(self) -> Step:
        """Draw a change."""
        if self._recorded is None:
            return self._drawn(sorted(self._documents))
        self._spare += self._characters
        if self._spare < 0:
            step = self._drawn(self._ours)
        elif self._random.random() > SYNTHETIC_SHARE and (recorded := next(self._recorded, None)) is not None:
            step = self._of_stream(recorded)
        else:
            step = self._drawn(sorted(self._documents))
        if isinstance(step, DocumentChange) and isinstance(step.content, str):
            self._spare -= len(step.content)
        return step

    def _drawn(self, names: Sequence[str]) -> Step:
        step = len(names) // HOT or 1
        name = self._random.choice(names[::step] if self._random.random() < HOT_SHARE else names)
        document = self._documents[name]
        kinds = LIVE_KINDS if document.content is not None else GONE_KINDS
        match self._random.choices(list(kinds), list(kinds.values()))[0]:
            case "undo" if document.former:
                return self._upsert(name, self._random.choice(document.former))
            case "rights" if document.content is not None:
                return self._upsert(name, document.content)
            case "again":
                return self._again(name)
            case "delete":
                return self._delete(name)
            case "tombstone":
                return self._bare_tombstone(name)
        return self._edit(name)

    def sweep(self, name: str) -> DocumentChange:
        """Give a change that leaves a document as it is, at the next version."""
        content = self._documents[name].content
        return self._delete(name) if content is None else self._upsert(name, content, keep=True)

    def _of_stream(self, recorded: tuple[str, int, str | None]) -> Step:
        name, version, content = recorded
        self.taken += 1
        document = self._documents.setdefault(name, _Document())
        document.version = max(document.version, version - 1)
        return self._delete(name) if content is None else self._upsert(name, content)

    def _bare_tombstone(self, name: str) -> BareTombstone:
        self._documents[name].latest = None
        return BareTombstone(DocumentId(name))

    def _again(self, name: str) -> Step:
        latest = self._documents[name].latest
        return BareTombstone(DocumentId(name)) if latest is None else latest

    def _edit(self, name: str) -> DocumentChange:
        """Change some paragraphs; of a document that is gone or new, write all of them."""
        document = self._documents.setdefault(name, _Document())
        drawn = self._random
        if document.content is None:
            least, most = LARGE_PARAGRAPHS if name in {f"d{number:02}" for number in range(LARGE)} else SMALL_PARAGRAPHS
            return self._upsert(name, "\n\n".join(self._paragraph(name) for _ in range(drawn.randint(least, most))))
        kept = document.content.split("\n\n")
        for _ in range(drawn.randint(1, 3)):
            match drawn.choice(("change", "insert", "drop", "move")):
                case "change":
                    kept[drawn.randrange(len(kept))] = self._paragraph(name)
                case "insert":
                    kept.insert(drawn.randint(0, len(kept)), self._paragraph(name))
                case "drop" if len(kept) > 1:
                    kept.pop(drawn.randrange(len(kept)))
                case _:
                    drawn.shuffle(kept)
        return self._upsert(name, "\n\n".join(kept))

    def _paragraph(self, name: str) -> str:
        self._paragraphs += 1
        words = " ".join(f"w{self._random.randrange(100)}" for _ in range(12))
        return f"{SYNTHETIC}{self._paragraphs} von {name}: Antrag und Gebühr {words} nach Frist zu entscheiden."

    def _upsert(self, name: str, content: str, *, keep: bool = False) -> DocumentChange:
        document = self._documents[name]
        if document.content is not None and document.content not in document.former:
            document.former = [*document.former[-3:], document.content]
        readers = self._random.choice(READERS)
        if keep and document.latest is not None:
            readers = document.latest.principals
        return self._change(
            name, Operation.UPSERT, principals=readers, content=content, priority=self._random.choice((0, 0, 0, 1))
        )

    def _delete(self, name: str) -> DocumentChange:
        return self._change(name, Operation.DELETE)

    def _change(
        self,
        name: str,
        operation: Operation,
        *,
        principals: tuple[str, ...] = (),
        content: str | None = None,
        priority: int = 0,
    ) -> DocumentChange:
        document = self._documents[name]
        document.version += 1
        self._clock += 1
        document.latest = DocumentChange(
            tenant=TENANT,
            document_id=DocumentId(name),
            operation=operation,
            version=document.version,
            occurred_at=Timestamp(self._clock),
            name=name.rpartition("/")[2] + ("" if "." in name else ".txt"),
            priority=priority,
            principals=principals,
            content=content,
        )
        return document.latest


def _recorded(path: Path) -> Iterator[tuple[str, int, str | None]]:
    for line in read_stream(path):
        yield line.document_id, line.version, None if line.content is None else line.content[:MOST_CHARACTERS]
