"""Embedders of their own for some kinds of chunks, beside the one for all others.

Their vectors stand in one space: a row has a block of numbers for each embedder. A chunk's row is 0 but for the block
of its embedder, a question's row has a vector in every block, so that their product is the cosine by the embedder of
the chunk; that of chunks of two embedders, which means nothing, is 0.

Cosines of two embedders are not comparable as they are: those of unrelated texts are about 0.74 with
multilingual-e5-small, and 0.05 with all-MiniLM-L6-v2. So each vector gets one more number, which is the same for all of
its embedder, and is scaled back to length 1: a linear map of all cosines, which leaves 1 as it is and takes those of
unrelated texts to where they are highest among the embedders. What is the same for all changes no ranking within one.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple, Self

import numpy as np

from freki.infra.models.cache import aligned_fingerprint, apart_embedders, apart_identities, joint_fingerprint
from freki.infra.models.embedder import OnnxEmbedder
from freki.infra.models.fake import FakeEmbedder
from freki.infra.models.progress import Progress, unseen
from freki.infra.models.session import Span
from freki.infra.settings import ModelSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas import ChunkKind
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured
from freki.schemas.index import Apart

MOST_UNRELATED = 0.98
"""An embedder whose unrelated texts are more alike cannot be aligned: all texts are about the same to it."""

Single = OnnxEmbedder | FakeEmbedder

# Each question belongs to the passage at its place, and to no other.
_QUESTIONS = (
    "Wie beantrage ich einen neuen Reisepass?",
    "How often do I have to rotate the signing key of the service?",
    "Bei welcher Temperatur geht ein Hefeteig am besten?",
    "When did the first railway open in England?",
    "Wie kündige ich meinen Mietvertrag?",
    "Which birds stay in the north over winter?",
    "Wo wird die Verbindung zur Datenbank geschlossen?",
    "How are the prices of an order summed up?",
)
_PASSAGES = (
    "Ein Reisepass wird bei der Gemeinde beantragt; ein Lichtbild und der alte Pass sind mitzubringen.",
    "Signing keys are replaced every ninety days: publish the new key and revoke the old one a week later.",
    "Der Teig geht bei etwa dreißig Grad am besten und sollte dabei zugedeckt sein.",
    "The Stockton and Darlington Railway opened in 1825 and carried coal from the mines to the river.",
    "Die Kündigung muss schriftlich erfolgen und spätestens am dritten Werktag eines Monats zugehen.",
    "Robins and tits stay all year, while swallows leave for Africa in September.",
    "def close(self) -> None:\n    self._pool.drain()\n    self._connection.close()",
    "SELECT order_id, SUM(price * amount) FROM items GROUP BY order_id;",
)


class Likeness(NamedTuple):
    """How alike unrelated texts are to an embedder, as cosines."""

    asked: float
    """Of a question and a passage."""
    passages: float


class Family:
    """Keeps the promises of an embedder; `of` gives the one of a kind, whose vectors stand in its block."""

    def __init__(
        self, default: Single, apart: Sequence[tuple[tuple[ChunkKind, ...], Single]], likeness: Sequence[Likeness]
    ) -> None:
        """Join embedders: one for all kinds that no other has; likeness: of each, the default first."""
        embedders = [default, *(embedder for _, embedder in apart)]
        highest = max(each.asked for each in likeness)
        shares = [(highest - each.asked) / (1 - each.asked) for each in likeness]
        self.dim = sum(embedder.dim + 1 for embedder in embedders)
        self.unrelated = max(share + (1 - share) * each.passages for share, each in zip(shares, likeness, strict=True))
        firsts = np.cumsum([0, *(embedder.dim + 1 for embedder in embedders)]).tolist()
        self._members = [
            Member(embedder, share=share, first=first, width=self.dim, unrelated=self.unrelated)
            for embedder, share, first in zip(embedders, shares, firsts, strict=False)
        ]
        self._own = {
            kind: member for (kinds, _), member in zip(apart, self._members[1:], strict=True) for kind in kinds
        }
        self.fingerprint = joint_fingerprint(
            self._members[0].fingerprint,
            [
                Apart(kinds=kinds, embedder=member.fingerprint, dim=embedder.dim + 1)
                for (kinds, embedder), member in zip(apart, self._members[1:], strict=True)
            ],
        )

    @classmethod
    async def measured(cls, default: Single, apart: Sequence[tuple[tuple[ChunkKind, ...], Single]]) -> Self:
        """Join embedders that are open. Raises Misconfigured for one that tells no texts apart."""
        embedders = [default, *(embedder for _, embedder in apart)]
        return cls(default, apart, [await likeness_of(embedder) for embedder in embedders])

    def of(self, kind: ChunkKind) -> "Member":
        """Return the embedder of a kind."""
        return self._own.get(kind, self._members[0])

    async def embed_passages(self, texts: Sequence[str]) -> Floats:
        """Embed texts of no kind."""
        return await self._members[0].embed_passages(texts)

    async def embed_within(self, windows: Sequence[str], spans: Sequence[Sequence[Span]]) -> Floats:
        """Embed parts of longer texts of no kind."""
        return await self._members[0].embed_within(windows, spans)

    async def embed_queries(self, texts: Sequence[str]) -> Floats:
        """Embed what is asked, by all at once; (texts, dim)."""
        rows: Floats = sum(
            await asyncio.gather(*(member.embed_queries(texts) for member in self._members)),
            start=np.zeros((len(texts), self.dim), np.float32),
        )
        return rows

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count tokens as the default sees them: sizes of chunks are counted so, whatever their kind."""
        return self._members[0].count_tokens(texts)


class Member:
    """One embedder of a family: keeps the promises of an embedder."""

    def __init__(self, embedder: Single, *, share: float, first: int, width: int, unrelated: float) -> None:
        """Put vectors at `first` in rows of `width`; share: of the number that is the same for all, 0 to 1."""
        self._embedder = embedder
        self._scale = np.float32(np.sqrt(1 - share))
        self._constant = np.float32(np.sqrt(share))
        self._first = first
        self.dim = width
        self.unrelated = unrelated
        self.fingerprint = aligned_fingerprint(embedder.fingerprint)

    def of(self, kind: ChunkKind) -> "Member":  # noqa: ARG002 - one for all
        """Return itself."""
        return self

    async def embed_passages(self, texts: Sequence[str]) -> Floats:
        """Embed what is searched, (texts, dim)."""
        return self._placed(await self._embedder.embed_passages(texts))

    async def embed_within(self, windows: Sequence[str], spans: Sequence[Sequence[Span]]) -> Floats:
        """Embed parts of longer texts by the states that their tokens have there, (spans, dim)."""
        return self._placed(await self._embedder.embed_within(windows, spans))

    async def embed_queries(self, texts: Sequence[str]) -> Floats:
        """Embed what is asked of this embedder's chunks, (texts, dim)."""
        return self._placed(await self._embedder.embed_queries(texts))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count tokens as this embedder sees them, without special ones."""
        return self._embedder.count_tokens(texts)

    def _placed(self, vectors: Floats) -> Floats:
        rows = np.zeros((len(vectors), self.dim), np.float32)
        last = self._first + self._embedder.dim
        rows[:, self._first : last] = self._scale * vectors
        rows[:, last] = self._constant
        return rows


async def likeness_of(embedder: Single) -> Likeness:
    """Measure how alike unrelated texts are, German and English ones, prose and code.

    Raises Misconfigured where that leaves no room for related ones.
    """
    questions, passages = await embedder.embed_queries(_QUESTIONS), await embedder.embed_passages(_PASSAGES)
    unrelated = ~np.eye(len(_PASSAGES), dtype=bool)
    likeness = Likeness(*(float((one @ passages.T)[unrelated].mean()) for one in (questions, passages)))
    if likeness.asked > MOST_UNRELATED:
        raise Misconfigured(
            f"{embedder.fingerprint} gives unrelated texts a cosine of {likeness.asked:.3f}, so it cannot stand beside "
            "another: name another model in FREKI_MODELS__EMBEDDERS, or have one for all"
        )
    return likeness


@asynccontextmanager
async def open_embedder(
    settings: ModelSettings, progress: Progress = unseen, *, calls: Calls | None = None
) -> AsyncIterator[OnnxEmbedder | Family]:
    """Open the embedder that the settings name, or all of them; each is made if it is not in the cache."""
    # First, so that what is wrong is told with the name of the setting.
    apart_identities(settings)
    async with AsyncExitStack() as opened:
        default = await opened.enter_async_context(OnnxEmbedder(settings, progress, calls=calls))
        apart = [
            (kinds, await opened.enter_async_context(OnnxEmbedder(alone(settings, chosen), progress, calls=calls)))
            for chosen, kinds in apart_embedders(settings).items()
        ]
        yield await Family.measured(default, apart) if apart else default


def alone(settings: ModelSettings, chosen: str) -> ModelSettings:
    """Return the settings of an embedder that some kinds have for themselves: these are never chunked late."""
    return settings.model_copy(update={"embedder": chosen, "embedders": {}, "late_window_tokens": 0})
