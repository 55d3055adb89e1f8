"""Additional embedders for some kinds of chunks, combined with the default one.

Their vectors share one space with a block per embedder. The vector of a chunk is 0 outside the block of its embedder,
that of a query has a vector in every block, so that their product is the cosine by the embedder of the chunk; the
product of chunks of two embedders is 0.

Cosines of two embedders are not comparable: those of unrelated texts are about 0.74 with multilingual-e5-small, and
0.05 with all-MiniLM-L6-v2. So each vector gets one more component, constant per embedder, and is scaled back to length
1: a linear map of cosines that fixes 1 and aligns those of unrelated texts with the highest among the embedders.
Rankings within one embedder do not change.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple, Self

import numpy as np

from freki.infra.models.cache import aligned_fingerprint, joint_fingerprint, kind_embedder_identities, kinds_by_embedder
from freki.infra.models.embedder import OnnxEmbedder
from freki.infra.models.fake import FakeEmbedder
from freki.infra.models.remote import RemoteEmbedder
from freki.infra.models.tokenizer import Span
from freki.infra.settings import REMOTE, ModelSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas import ChunkKind
from freki.schemas.embeddings import NO_NUMBERS, NO_ROWS, Embeddings
from freki.schemas.errors import Misconfigured
from freki.schemas.index import KindEmbedder

MOST_UNRELATED = 0.98
"""Maximum cosine of unrelated texts for alignment; above it an embedder hardly distinguishes texts."""

Single = OnnxEmbedder | RemoteEmbedder | FakeEmbedder

# Each question is related to the passage of the same index only.
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


class UnrelatedCosines(NamedTuple):
    """Cosines of unrelated texts by an embedder."""

    asked: float
    """Cosine of a query and an unrelated passage."""
    passages: float


class Family:
    """Several embedders behind the interface of one; `of` returns the one for a kind of chunks."""

    def __init__(
        self,
        default: Single,
        kind_embedders: Sequence[tuple[tuple[ChunkKind, ...], Single]],
        likeness: Sequence[UnrelatedCosines],
    ) -> None:
        """Combine a default embedder and additional ones; likeness: of each, the default first."""
        embedders = [default, *(embedder for _, embedder in kind_embedders)]
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
            kind: member for (kinds, _), member in zip(kind_embedders, self._members[1:], strict=True) for kind in kinds
        }
        self.fingerprint = joint_fingerprint(
            self._members[0].fingerprint,
            [
                KindEmbedder(kinds=kinds, embedder=member.fingerprint, dim=embedder.dim + 1)
                for (kinds, embedder), member in zip(kind_embedders, self._members[1:], strict=True)
            ],
        )

    @classmethod
    async def measured(cls, default: Single, kind_embedders: Sequence[tuple[tuple[ChunkKind, ...], Single]]) -> Self:
        """Combine open embedders. Raises Misconfigured for one that does not distinguish texts."""
        embedders = [default, *(embedder for _, embedder in kind_embedders)]
        return cls(default, kind_embedders, [await likeness_of(embedder) for embedder in embedders])

    def of(self, kind: ChunkKind) -> "Member":
        """Return the embedder of a kind."""
        return self._own.get(kind, self._members[0])

    async def embed_passages(self, texts: Sequence[str], headings: Sequence[str] = ()) -> Embeddings:
        """Embed texts of no kind."""
        return await self._members[0].embed_passages(texts, headings)

    async def embed_within(self, windows: Sequence[str], spans: Sequence[Sequence[Span]]) -> Embeddings:
        """Embed parts of longer texts of no kind."""
        return await self._members[0].embed_within(windows, spans)

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        """Embed queries by all embedders; the token vectors are those of the default one."""
        found = await asyncio.gather(*(member.embed_queries(texts) for member in self._members))
        blocks = (each.vectors for each in found)
        return found[0]._replace(vectors=sum(blocks, start=np.zeros((len(texts), self.dim), np.float32)))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens by the default embedder, which defines the size of all chunks."""
        return self._members[0].count_tokens(texts)


class Member:
    """One of several combined embedders, behind the same interface."""

    def __init__(self, embedder: Single, *, share: float, first: int, width: int, unrelated: float) -> None:
        """Place vectors at `first` in vectors of `width`; share: weight of the constant component, 0..1."""
        self._embedder = embedder
        self._scale = np.float32(np.sqrt(1 - share))
        self._constant = np.float32(np.sqrt(share))
        self._first = first
        self.dim = width
        self.unrelated = unrelated
        self.fingerprint = aligned_fingerprint(embedder.fingerprint)

    def of(self, kind: ChunkKind) -> "Member":  # noqa: ARG002 - one for all
        """Return this embedder."""
        return self

    async def embed_passages(self, texts: Sequence[str], headings: Sequence[str] = ()) -> Embeddings:
        """Embed passages."""
        return self._placed(await self._embedder.embed_passages(texts, headings))

    async def embed_within(self, windows: Sequence[str], spans: Sequence[Sequence[Span]]) -> Embeddings:
        """Embed spans of windows by the states of their tokens in the window."""
        return self._placed(await self._embedder.embed_within(windows, spans))

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        """Embed queries for the chunks of this embedder."""
        return self._placed(await self._embedder.embed_queries(texts))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens by this embedder, without special ones."""
        return self._embedder.count_tokens(texts)

    def _placed(self, found: Embeddings) -> Embeddings:
        rows = np.zeros((len(found.vectors), self.dim), np.float32)
        last = self._first + self._embedder.dim
        rows[:, self._first : last] = self._scale * found.vectors
        rows[:, last] = self._constant
        if self._first == 0:
            return found._replace(vectors=rows)
        # What late interaction compares is not comparable between embedders.
        return Embeddings(rows, [NO_ROWS] * len(rows), [NO_ROWS] * len(rows), [0] * len(rows), [NO_NUMBERS] * len(rows))


async def likeness_of(embedder: Single) -> UnrelatedCosines:
    """Measure the cosines of unrelated texts, in German and English, prose and code.

    Raises Misconfigured where they are too high to distinguish related texts.
    """
    questions = (await embedder.embed_queries(_QUESTIONS)).vectors
    passages = (await embedder.embed_passages(_PASSAGES)).vectors
    unrelated = ~np.eye(len(_PASSAGES), dtype=bool)
    likeness = UnrelatedCosines(*(float((one @ passages.T)[unrelated].mean()) for one in (questions, passages)))
    if likeness.asked > MOST_UNRELATED:
        raise Misconfigured(
            f"{embedder.fingerprint} gives unrelated texts a cosine of {likeness.asked:.3f}, so it cannot stand beside "
            "another: name another model in FREKI_MODELS__EMBEDDERS, or have one for all"
        )
    return likeness


@asynccontextmanager
async def open_embedder(
    settings: ModelSettings, *, calls: Calls | None = None
) -> AsyncIterator[OnnxEmbedder | RemoteEmbedder | Family]:
    """Open the embedder of the settings, or several combined; each is made if it is not in the cache."""
    # First, so that errors name the setting.
    kind_embedder_identities(settings)
    async with AsyncExitStack() as opened:
        if settings.embedder == REMOTE:
            yield await opened.enter_async_context(RemoteEmbedder(settings, calls=calls))
            return
        default = await opened.enter_async_context(OnnxEmbedder(settings, calls=calls))
        kind_embedders = [
            (kinds, await opened.enter_async_context(OnnxEmbedder(alone(settings, chosen), calls=calls)))
            for chosen, kinds in kinds_by_embedder(settings).items()
        ]
        yield await Family.measured(default, kind_embedders) if kind_embedders else default


def alone(settings: ModelSettings, chosen: str) -> ModelSettings:
    """Return the settings of an additional embedder, without late chunking."""
    return settings.model_copy(update={"embedder": chosen, "embedders": {}, "late_window_tokens": 0})
