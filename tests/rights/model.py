"""What each user may see: every state that documents and groups had, and since when the one before must be gone."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Generic, TypeVar

from freki.schemas import EVERYONE, ContextResult, DocumentReport, IndexOutcome
from tests.chaos.books import VISIBLE

TENANTS = ("hr", "sales")
USERS = ("ada", "eve", "kim", "bob")
GROUPS = ("board", "staff", "council")
SECRET = re.compile(r"(?:zx|doc-)[0-9a-f]{10}")
"""Words of which each is in one state of one document, and ids of documents."""
T = TypeVar("T")
Said = ContextResult | DocumentReport


@dataclass(frozen=True, slots=True)
class Key:
    """A user or document of a tenant."""

    tenant: str
    name: str


@dataclass(frozen=True, slots=True)
class State:
    """A state of a document, as it was published."""

    version: int
    secret: str
    """A word of its text."""
    readers: frozenset[str]
    """Of a deletion: who may know that the document was there."""
    is_there: bool = True


@dataclass(slots=True)
class History(Generic[T]):
    """The states of something in order, and the oldest one that may still be seen."""

    states: list[T]
    oldest: int = 0
    newest: int = -1
    """The newest one known to be seen; none before the first receipt."""

    def since(self, oldest: int) -> Sequence[T]:
        """Give the states that somebody may see who began when `oldest` was the oldest one."""
        return self.states[oldest:]

    def passed(self, place: int) -> None:
        """Note that nobody may see anything older than this place from now on."""
        self.oldest = max(self.oldest, place)
        self.newest = max(self.newest, place)


@dataclass(frozen=True, slots=True)
class Moment:
    """What may be seen by whoever asks from now on."""

    documents: dict[Key, int]
    objections: dict[Key, int]
    groups: int


@dataclass(slots=True)
class Model:
    """All states of documents, objections and groups, and what answers told that they must not."""

    documents: dict[Key, History[State]] = field(default_factory=dict)
    objections: dict[Key, History[bool]] = field(default_factory=dict)
    """Whether answers must leave a document out."""
    groups: dict[Key, History[frozenset[str]]] = field(default_factory=dict)
    owners: dict[str, Key] = field(default_factory=dict)
    """Whose each secret is."""
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def groups_of(self, user: Key) -> History[frozenset[str]]:
        """Give the groups that a user had and has."""
        return self.groups.setdefault(user, History([frozenset()]))

    def objections_to(self, document: Key) -> History[bool]:
        """Give whether answers had and have to leave a document out."""
        return self.objections.setdefault(document, History([False]))

    def publish(self, document: Key, state: State) -> None:
        """Note a state before it is sent: from then on it may be seen."""
        self.documents.setdefault(document, History([])).states.append(state)
        self.owners[state.secret] = self.owners[document.name] = document

    def delete(self, document: Key, version: int) -> None:
        """Note a deletion before it is sent; those who could read the document may know of it."""
        states = self.documents.setdefault(document, History([])).states
        self.publish(document, State(version, "", states[-1].readers if states else frozenset(), is_there=False))

    def receive(self, outcome: IndexOutcome) -> None:
        """Note a receipt: what is older may not be seen by those who ask from now on."""
        self.seen[f"receipt: {outcome.status.value.lower()}"] += 1
        document = Key(str(outcome.tenant), str(outcome.document_id))
        if outcome.status not in VISIBLE or document not in self.documents:
            return
        history = self.documents[document]
        for place, state in enumerate(history.states):
            if state.version == outcome.version:
                history.passed(place)

    def moment(self, user: Key) -> Moment:
        """Give what holds when this user asks now."""
        return Moment(
            {key: history.oldest for key, history in self.documents.items() if key.tenant == user.tenant},
            {key: history.oldest for key, history in self.objections.items() if key.tenant == user.tenant},
            self.groups_of(user).oldest,
        )

    def judge(self, said: Said, user: Key, names: frozenset[str], since: Moment, *, named: str = "") -> None:
        """Compare all that an answer says with what its asker may know.

        names: of the user and of the groups in the token. since: the moment before the question was sent. named: the
        document that the question named itself.
        """
        text = all_of(said)
        if named:
            text = text.replace(named, "")
        groups = self.groups_of(user).since(since.groups)
        for secret in set(SECRET.findall(text)):
            owner = self.owners.get(secret)
            if owner is None:
                self._wrong(said, user, f"{secret}, which was never published")
            elif owner.tenant != user.tenant:
                self._wrong(said, user, f"{secret} of the tenant {owner.tenant}")
            elif all(self.objections_to(owner).since(since.objections.get(owner, 0))):
                self._wrong(said, user, f"{secret} of {owner.name}, to which there is an objection")
            elif not any(
                (secret in (state.secret, owner.name)) and state.readers & (names | {EVERYONE} | given)
                for state in self.documents[owner].since(since.documents.get(owner, 0))
                for given in groups
            ):
                states = self.documents[owner].since(since.documents.get(owner, 0))
                self._wrong(said, user, f"{secret} of {owner.name}; names {sorted(names)}, {groups=}, {states=}")

    def refuse(self, said: Said, user: Key, kind: str) -> None:
        """Check that the answer to a query whose token counts nothing says nothing."""
        if said.status.value != "REJECTED" or SECRET.search(all_of(said)):
            self._wrong(said, user, f"a token that is {kind} was answered with {said.status}")

    def readable(self, user: Key, names: frozenset[str]) -> Iterator[Key]:
        """Give the documents that a user may read now, when nothing is under way."""
        allowed = names | {EVERYONE} | self.groups_of(user).states[-1]
        for key, history in self.documents.items():
            last = history.states[-1]
            objected = self.objections_to(key).states[-1]
            if key.tenant == user.tenant and last.is_there and last.readers & allowed and not objected:
                yield key

    def may_know(self, user: Key, names: frozenset[str], document: Key) -> bool:
        """Tell whether a user could read some state of a document, with any of the groups that she ever had."""
        allowed = names.union({EVERYONE}, *self.groups_of(user).states)
        return any(state.readers & allowed for state in self.documents[document].states)

    def _wrong(self, said: Said, user: Key, what: str) -> None:
        self.wrong.append(f"{type(said).__name__} {said.query_id} told {user.name} of {user.tenant}: {what}")


def all_of(said: Said) -> str:
    """Write down all that an answer says."""
    return json.dumps(asdict(said), default=str, ensure_ascii=False)
