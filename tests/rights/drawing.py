"""The operations of a run, drawn from its seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from freki.schemas import EVERYONE
from tests.rights.model import GROUPS, TENANTS, USERS, Key

DOCUMENTS = 24
"""Of a tenant; one that is erased is replaced by another."""
TOPICS = (
    *("Urlaub", "Dienstreise", "Elternzeit", "Nebentätigkeit", "Umzug", "Fortbildung", "Überstunden", "Telearbeit"),
    *("Beihilfe", "Gebühr", "Widerspruch", "Vergabe", "Haushalt", "Bauantrag", "Wohngeld", "Parkausweis"),
)
READERS = ((EVERYONE,), ("ada",), ("eve", "kim"), ("board",), ("staff",), ("council", "ada"), ("bob", "board"))


class Kind(StrEnum):
    """What happens."""

    ASK = "a query"
    LIST = "a list of documents"
    SHOW = "a document shown"
    FORGE = "a query without a valid token"
    EDIT = "an edit"
    RIGHTS = "other readers"
    DELETE = "a deletion"
    ERASE = "an erasure"
    REQUEST = "an erasure requested, of every other document while it is held"
    LATE = "a change of an erased document"
    OBJECT = "an objection placed or lifted"
    GROUPS = "other groups"
    WORKER = "a worker comes, goes or is killed"


WEIGHTS = {
    Kind.ASK: 450,
    Kind.LIST: 60,
    Kind.SHOW: 60,
    Kind.FORGE: 100,
    Kind.EDIT: 130,
    Kind.RIGHTS: 80,
    Kind.DELETE: 40,
    Kind.ERASE: 8,
    Kind.REQUEST: 4,
    Kind.LATE: 7,
    Kind.OBJECT: 40,
    Kind.GROUPS: 60,
    Kind.WORKER: 5,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation; fields beside its kind count where the kind needs them."""

    number: int
    kind: Kind
    user: Key
    claimed: frozenset[str]
    """Groups in the token."""
    document: Key
    topic: str
    readers: frozenset[str]
    groups: frozenset[str]
    forgery: str


@dataclass(slots=True)
class Drawing:
    """Draws operations."""

    seed: int
    forgeries: tuple[str, ...]
    kinds: tuple[Kind, ...] = tuple(Kind)
    _random: random.Random = field(init=False)
    _words: random.Random = field(init=False)
    """Its own: words are drawn while operations run, whose order differs, and the operations must not."""
    _pool: dict[str, list[Key]] = field(init=False)
    _erased: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(f"rights {self.seed}")  # noqa: S311 - not a secret
        self._words = random.Random(f"words {self.seed}")  # noqa: S311
        self._pool = {tenant: [self._new(tenant) for _ in range(DOCUMENTS)] for tenant in TENANTS}

    def first(self) -> Iterator[Operation]:
        """Give what is there in the beginning."""
        for tenant in TENANTS:
            for document in self._pool[tenant]:
                yield self._operation(0, Kind.EDIT, tenant, document)

    def draw(self, operations: int) -> Iterator[Operation]:
        """Draw so many."""
        for number in range(1, operations + 1):
            tenant = self._random.choice(TENANTS)
            kind = self._random.choices(self.kinds, [WEIGHTS[each] for each in self.kinds])[0]
            if kind is Kind.LATE and not self._erased:
                kind = Kind.ERASE
            document = self._random.choice(self._erased if kind is Kind.LATE else self._pool[tenant])
            if kind in (Kind.ERASE, Kind.REQUEST):
                self._pool[tenant].remove(document)
                self._pool[tenant].append(self._new(tenant))
                self._erased.append(document)
            yield self._operation(number, kind, tenant, document)

    def word(self) -> str:
        """Draw a word that is nowhere else."""
        return _word(self._words)

    def _new(self, tenant: str) -> Key:
        return Key(tenant, f"doc-{_word(self._random)}")

    def _some_groups(self) -> frozenset[str]:
        return frozenset(self._random.sample(GROUPS, self._random.choice((0, 0, 1, 2))))

    def _operation(self, number: int, kind: Kind, tenant: str, document: Key) -> Operation:
        return Operation(
            number=number,
            kind=kind,
            user=Key(tenant, self._random.choice(USERS)),
            claimed=self._some_groups() if self._random.random() < 0.3 else frozenset(),
            document=document,
            topic=self._random.choice(TOPICS),
            readers=frozenset(self._random.choice(READERS)),
            groups=self._some_groups(),
            forgery=self._random.choice(self.forgeries),
        )


def _word(source: random.Random) -> str:
    return f"{source.getrandbits(40):010x}"
