"""What one tenant uses."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field

from freki.operators.identify import root_id
from freki.schemas import DocumentId, IndexOutcome, OutcomeStatus, RootId, TenantId, Timestamp
from freki.schemas.index import Root
from freki.schemas.limits import Admission, TenantUse
from freki.streams.topics import DAY_MS

_REMEMBERED = 10_000
"""Receipts that are remembered for admissions that are read after them."""
_APPLIED = frozenset({OutcomeStatus.INDEXED, OutcomeStatus.UNCHANGED, OutcomeStatus.DELETED})


@dataclass(slots=True)
class _Open:
    """A document with changes that have no receipt yet."""

    before: int | None
    """Its characters in the store; None: it is not there."""
    sizes: dict[int, int | None]
    """Its characters after each change, by version."""
    tokens: dict[int, int] = field(default_factory=dict)

    @property
    def most(self) -> int | None:
        """The most that it takes whatever becomes of the changes."""
        return max((size for size in (self.before, *self.sizes.values()) if size is not None), default=None)


@dataclass(slots=True)
class _Stock:
    """Documents of the store and their characters."""

    documents: int = 0
    characters: int = 0

    def change(self, before: int | None, after: int | None) -> None:
        self.documents += (after is not None) - (before is not None)
        self.characters += (after or 0) - (before or 0)


class TenantLedger:
    """Use of one tenant: the stock of the store, changes under way, and what counts by the day.

    Changes are told by `admit` before they are sent on, and by `settle` with their receipts, in any order and any
    number of times.
    """

    def __init__(self, tenant: TenantId) -> None:
        self._tenant = tenant
        self._open: dict[DocumentId, _Open] = {}
        self._stock: _Stock | None = None
        self._count: _Stock | None = None
        self._counted_to = RootId("")
        self._published: defaultdict[int, int] = defaultdict(int)
        self._tokens: defaultdict[int, int] = defaultdict(int)
        self._seen: dict[int, set[tuple[DocumentId, int]]] = {}
        self._today: int | None = None
        self._counting: set[int] = set()
        """Days for which something was counted since this one began."""
        self._settled: OrderedDict[tuple[DocumentId, int], tuple[OutcomeStatus, Timestamp]] = OrderedDict()

    @property
    def is_counted(self) -> bool:
        """Whether the stock of the store is known."""
        return self._stock is not None

    def use(self, *, at: Timestamp, now: Timestamp) -> TenantUse:
        """Return what counts; at: the time of the change in question, for what is published on its day."""
        stock = self._stock or _Stock()
        total = _Stock(stock.documents, stock.characters)
        for document in self._open.values():
            total.change(document.before, document.most)
        return TenantUse(
            documents=total.documents,
            characters=total.characters,
            published_bytes=self._published.get(at // DAY_MS, 0),
            tokens=self._tokens.get(now // DAY_MS, 0)
            + sum(sum(document.tokens.values()) for document in self._open.values()),
        )

    def size_under_way(self, document_id: DocumentId) -> tuple[int | None, int | None] | None:
        """Return the characters of a document in the store and at most; None if no change of it is under way."""
        found = self._open.get(document_id)
        return None if found is None else (found.before, found.most)

    def has(self, document_id: DocumentId, version: int) -> bool:
        """Return whether this change is under way already."""
        found = self._open.get(document_id)
        return found is not None and version in found.sizes

    def has_published(self, document_id: DocumentId, version: int, *, at: Timestamp) -> bool:
        """Return whether the content of this change counts already for the day of `at`."""
        return (document_id, version) in self._seen.get(at // DAY_MS, ())

    def admit(self, admission: Admission, *, reported_at: Timestamp | None = None) -> None:
        """Take a change that was let through.

        reported_at: when the broker stored that another process let it through, whose receipt may have come before;
        None: this process lets it through now.
        """
        document_id, version = admission.document_id, admission.version
        day = admission.at // DAY_MS
        self._counting.add(day)
        if (document_id, version) not in (seen := self._seen.setdefault(day, set())):
            seen.add((document_id, version))
            self._published[day] += admission.published_bytes
        if self.has(document_id, version):
            return
        found = self._open.setdefault(document_id, _Open(admission.before, {}))
        found.sizes[version], found.tokens[version] = admission.size, admission.tokens
        status, settled_at = self._settled.get((document_id, version), (None, Timestamp(0)))
        # An earlier receipt is of the same version as it came before.
        if status is not None and reported_at is not None and settled_at >= reported_at:
            self._close(document_id, version, status)

    def settle(self, outcome: IndexOutcome, *, at: Timestamp) -> None:
        """Take a receipt; at: when the broker stored it."""
        self._tokens[at // DAY_MS] += outcome.tokens
        self._counting.add(at // DAY_MS)
        if not self._close(outcome.document_id, outcome.version, outcome.status):
            self._settled[outcome.document_id, outcome.version] = (outcome.status, at)
            if len(self._settled) > _REMEMBERED:
                self._settled.popitem(last=False)

    def forget(self, now: Timestamp) -> None:
        """Forget, as a day begins, those before yesterday for which nothing was counted on the last one.

        What waited during an outage counts for its day until all of it is let through or refused.
        """
        today = now // DAY_MS
        if today == self._today:
            return
        self._today = today
        for by_day in (self._published, self._tokens, self._seen):
            for day in [day for day in by_day if day < today - 1 and day not in self._counting]:
                del by_day[day]
        self._counting.clear()

    def begin_count(self) -> None:
        """Begin to count the stock again; then `count` each root in the order of ids, and `end_count`."""
        self._count, self._counted_to = _Stock(), RootId("")

    def count(self, root: Root) -> None:
        """Count the standing root of a document."""
        if self._count is None:
            raise RuntimeError("no count has begun")
        size = None if root.deleted else root.characters
        self._counted_to = root.root_id
        self._count.change(None, size)
        found = self._open.get(root.document_id)
        if found is not None:
            if self._stock is not None:
                self._stock.change(found.before, size)
            found.before = size
            for version in [version for version in found.sizes if version and version <= root.version]:
                self._drop(root.document_id, found, version)

    def end_count(self) -> None:
        """Use what was counted."""
        self._stock, self._count = self._count, None

    def _close(self, document_id: DocumentId, version: int, status: OutcomeStatus) -> bool:
        """End a change by its receipt; return whether it was under way."""
        found = self._open.get(document_id)
        if found is None or version not in found.sizes:
            return False
        after = found.sizes[version]
        if status in _APPLIED:
            if self._stock is not None:
                self._stock.change(found.before, after)
            # The rest of the count will see it.
            if self._count is not None and root_id(self._tenant, document_id) <= self._counted_to:
                self._count.change(found.before, after)
            found.before = after
        self._drop(document_id, found, version)
        return True

    def _drop(self, document_id: DocumentId, found: _Open, version: int) -> None:
        del found.sizes[version]
        found.tokens.pop(version, None)
        if not found.sizes:
            del self._open[document_id]
