"""A stream runs, workers are killed at random moments, a reader queries all the while."""

import asyncio
import random
import secrets
from collections import defaultdict
from dataclasses import dataclass, field

from freki.schemas import (
    EVERYONE,
    ContextResult,
    DocumentChange,
    DocumentId,
    Operation,
    OutcomeStatus,
    RerankerChoice,
    TenantId,
    Timestamp,
)
from freki.streams.wire.connect import open_asker, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import PATIENCE_S, query, verify

TENANT = TenantId("kills")
DOCUMENTS = 10
PARAGRAPHS = 6
KILLS_EACH = 5
CHANGES_PER_ANSWER = 2
"""Most changes that are published for each answer."""
READS = 20
"""Answers of which there are more."""
READ_EVERY_S = 0.2
"""Between an answer and the next question: without a pause they would slow down the workers that start again."""
WORKERS = ("chunk-contextualise", "embed")


@dataclass
class Books:
    """What was published, so that whatever is read can be judged."""

    random: random.Random
    paragraphs: dict[str, list[str]] = field(default_factory=dict)
    published: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    latest: dict[str, DocumentChange] = field(default_factory=dict)
    seen: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    reads: int = 0

    def next_change(self) -> DocumentChange:
        """Edit, move, add or remove a paragraph of some document, or delete it."""
        name = f"d{self.random.randrange(DOCUMENTS)}"
        version = self.latest[name].version + 1 if name in self.latest else 1
        texts = self.paragraphs.get(name)
        if texts is None:
            texts = [self._paragraph(name, version, place) for place in range(PARAGRAPHS)]
        else:
            texts = self.random.sample(texts, k=self.random.randint(2, len(texts)))
            texts.insert(self.random.randrange(len(texts)), self._paragraph(name, version, 99))
        gone = version > 1 and self.random.random() < 0.1
        self.paragraphs[name] = texts
        self.published[name, version] = frozenset() if gone else frozenset(texts)
        change = DocumentChange(
            tenant=TENANT,
            document_id=DocumentId(name),
            operation=Operation.DELETE if gone else Operation.UPSERT,
            version=version,
            occurred_at=wall_clock(),
            name=f"{name}.txt",
            # Changes of one document travel in different lanes.
            priority=self.random.choice((0, 0, 1)),
            principals=() if gone else (EVERYONE,),
            content=None if gone else "\n\n".join(texts),
        )
        self.latest[name] = change
        return change

    def _paragraph(self, name: str, version: int, place: int) -> str:
        words = " ".join(f"{stem}{self.random.randrange(10_000)}" for stem in ("Antrag", "Bescheid", "Gebühr", "Frist"))
        return (
            f"Absatz {place} des Dokuments {name} in der Fassung {version}: Der Vorgang {words} wurde bearbeitet. "
            f"Die zuständige Stelle hat hierüber innerhalb von {self.random.randrange(90)} Tagen zu entscheiden und "
            "den Beteiligten die Entscheidung schriftlich mitzuteilen."
        )

    def judge(self, result: ContextResult) -> None:
        """Fail on a mixed revision, on text that was never in it, and on a step back in time."""
        self.reads += 1
        versions: dict[str, int] = {}
        for hit in result.hits:
            name = str(hit.document_id)
            assert versions.setdefault(name, hit.version) == hit.version
            whole = self.published[name, hit.version]
            assert any(hit.text in text or text in hit.text for text in whole), f"{hit.text!r} is not in {name}"
        for name, version in versions.items():
            assert version >= self.seen[name], f"{name} went back from version {self.seen[name]} to {version}"
            self.seen[name] = version


async def _publish(freki: Freki, books: Books, over: asyncio.Event) -> None:
    async with open_publisher(freki.settings) as publisher:
        while not over.is_set():
            # No faster than this machine, or the last receipts wait for a long backlog.
            if len(books.published) < CHANGES_PER_ANSWER * (1 + books.reads):
                await publisher.publish(books.next_change())
            await asyncio.sleep(books.random.uniform(0, 0.2))


async def _read(freki: Freki, books: Books, over: asyncio.Event) -> None:
    async with open_asker(freki.settings) as asker:
        while not over.is_set():
            asked = query(
                TENANT,
                f"Welche Frist gilt für den Vorgang in Dokument d{books.random.randrange(DOCUMENTS)}?",
                # A reader asks on while workers are down.
                deadline_ms=5_000,
                top_k=20,
                mmr_lambda=1.0,
                reranker=RerankerChoice.NONE,
            )
            books.judge(await asker.ask(asked, patience_s=PATIENCE_S))
            await asyncio.sleep(READ_EVERY_S)


async def _kill(freki: Freki, name: str, seed: int) -> None:
    moments = random.Random(seed)  # noqa: S311
    for _ in range(KILLS_EACH):
        await freki.children.ready[name].wait()
        await asyncio.sleep(moments.uniform(0, 1.5))
        await freki.children.kill(name)
    await freki.children.ready[name].wait()


async def test_kills_lose_nothing_and_show_no_reader_a_mixed_revision(freki: Freki) -> None:
    seed = secrets.randbelow(10**6)
    books = Books(random.Random(seed))  # noqa: S311
    over = asyncio.Event()

    async with asyncio.TaskGroup() as running:
        running.create_task(_publish(freki, books, over))
        running.create_task(_read(freki, books, over))
        kills = [running.create_task(_kill(freki, name, seed + place)) for place, name in enumerate(WORKERS)]
        await asyncio.wait(kills)
        # Also on a machine that answers slowly.
        while books.reads <= READS:  # noqa: ASYNC110 - the reader counts them
            await asyncio.sleep(0.05)
        over.set()
    async with open_receipts(freki.settings) as receipts, open_publisher(freki.settings) as publisher:
        for change in books.latest.values():
            receipts.expect(change)
            # Once more, in case its receipt was sent before we listened.
            await publisher.publish(change)
        for _ in books.latest:
            outcome = await receipts.next(patience_s=PATIENCE_S)
            assert outcome.status in {OutcomeStatus.INDEXED, OutcomeStatus.UNCHANGED, OutcomeStatus.DELETED}

    assert freki.children.kills >= 2 * KILLS_EACH
    assert books.reads > READS, f"seed {seed}"
    assert await verify(freki) == 0, f"seed {seed}"


async def test_every_final_version_is_searchable(freki: Freki) -> None:
    tenant, name, words = TenantId("final"), DocumentId("final"), "Streuobstwiesenförderung Antragsfrist Mai"
    async with (
        open_receipts(freki.settings) as receipts,
        open_publisher(freki.settings) as publisher,
        open_asker(freki.settings) as asker,
    ):
        for version in (1, 2, 3):
            change = DocumentChange(
                tenant=tenant,
                document_id=name,
                operation=Operation.UPSERT,
                version=version,
                occurred_at=Timestamp(version),
                principals=(EVERYONE,),
                content=f"{words} in der Fassung {version}",
            )
            receipts.expect(change)
            await publisher.publish(change)
            await receipts.next(patience_s=PATIENCE_S)
            (hit,) = (await asker.ask(query("final", words, top_k=1), patience_s=PATIENCE_S)).hits
            assert (hit.document_id, hit.version) == (name, version)
