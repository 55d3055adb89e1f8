"""The pipeline in one process: real models, chunker, analyser and rules; an index in memory, and no topics."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from freki.infra.caches import BoundedCache
from freki.infra.claims import ClaimStore
from freki.infra.evaluation_sets import read_set
from freki.infra.models import OnnxEmbedder
from freki.infra.models.vectors import VectorCache
from freki.infra.settings import ChunkingSettings, ClaimSettings, IngestSettings, ModelSettings, RetrievalSettings
from freki.operators.analyse_text import ANALYSER, analyse_text
from freki.operators.late_interaction import ENGLISH, OTHERS
from freki.schemas import ContextQuery, ContextResult, QueryId, TenantId, Timestamp
from freki.schemas.evaluation import CorpusDocument, EvaluationSet
from freki.schemas.index import Generation
from freki.schemas.names import record
from freki.streams.evaluate.configuration import parse_configuration
from freki.streams.evaluate.corpus import missing, roots_of
from freki.streams.evaluate.examine import Examiner
from freki.streams.evaluate.result import Run
from freki.streams.ingest.chunk import Chunker
from freki.streams.ingest.contextualise import contextualise
from freki.streams.ingest.index import Indexer, IndexRules, ReceivedPart
from freki.streams.ingest.outline import Outliner, OutlineRules
from freki.streams.retrieve.dependencies import Clocks, QueryDefaults, RetrievalModels, Stores
from freki.streams.retrieve.retriever import Retriever
from freki.streams.wire.from_settings import wall_clock
from freki.streams.wire.query_parts import KEPT_S, MANIFEST_BYTES
from freki.streams.wire.rules import limits_of
from tests.memory_index import MemoryIndex
from tests.parsing import parse_here
from tests.received import received

TENANT = TenantId("quality")
GENERATION = "g1"
SERVED = "as served"
CONFIGURATIONS = {
    SERVED: "",
    "dense alone": "reranker=none,alpha=1,mmr_lambda=1",
    "BM25 alone": "reranker=none,alpha=0,mmr_lambda=1",
}
"""Of the queries. One retriever makes good for most of what another loses, so each is measured by itself too."""
SURE = 0.5
"""Score from which on a hit that is wrong is a false positive, as `freki eval` has it."""
# Not the environment's: what is recorded is how Freki comes.
MODELS, CHUNKING, RETRIEVAL = ModelSettings(), ChunkingSettings(), RetrievalSettings()


class Freki:
    """Indexes sets of documents, each for itself, and asks their questions."""

    def __init__(self, embedder: OnnxEmbedder) -> None:
        self._embedder = embedder

    @property
    def made_with(self) -> Mapping[str, str]:
        """What figures depend on, beside the code."""
        return {
            "embedder": self._embedder.fingerprint,
            "reranker": f"{MODELS.reranker} {ENGLISH} {OTHERS}",
            "analyser": ANALYSER,
            "chunking": CHUNKING.model_dump_json(),
            "retrieval": RETRIEVAL.model_dump_json(),
        }

    async def examine(self, examined: EvaluationSet) -> dict[str, Run]:
        """Index a set and ask its questions in each configuration."""
        index = await self.indexed(examined.corpus or ())
        numbers = count()
        retriever = self.retriever(index)
        await retriever.warm_up()
        examiner = Examiner(
            Asker(retriever),
            tenant=TENANT,
            defaults=RETRIEVAL.options,
            threshold=SURE,
            max_in_flight=1,
            now=wall_clock,
            new_id=lambda: QueryId(str(next(numbers))),
        )
        runs = {}
        for title, options in CONFIGURATIONS.items():
            run, _ = await examiner.run(
                examined.questions, parse_configuration(options), title=title, advance=lambda: None
            )
            runs[title] = run
        return runs

    async def indexed(self, corpus: Iterable[CorpusDocument]) -> MemoryIndex:
        """Index documents."""
        index = MemoryIndex(
            Generation(name=GENERATION, embedder=self._embedder.fingerprint, dim=self._embedder.dim, analyser=ANALYSER)
        )
        chunking = Chunker(
            claims=ClaimStore(ClaimSettings()),
            outliner=Outliner(
                OutlineRules(limits=limits_of(CHUNKING)), parse=parse_here, count_tokens=self._embedder.count_tokens
            ),
            part_chunks=CHUNKING.part_chunks,
            now=wall_clock,
        )
        indexer = Indexer(
            IndexRules(
                generation=GENERATION,
                analyse_text=analyse_text,
                analyser=ANALYSER,
                slice_tokens=IngestSettings().slice_tokens,
            ),
            store=index,
            embedder=self._embedder,
            vectors=VectorCache("", 0),
            now=wall_clock,
        )
        changes = missing(roots_of(corpus, TENANT), {}, tenant=TENANT, now=wall_clock())
        arrived = [received(change, Timestamp(change.version)) for change in changes]
        batches = [batch for each in arrived for batch in await chunking.revise(each)]
        async for _ in indexer.index([ReceivedPart(contextualise(batch), 0) for batch in batches]):
            pass
        return index

    def retriever(self, index: MemoryIndex) -> Retriever:
        """Return what answers from an index."""
        return Retriever(
            RetrievalModels(embedder=self._embedder),
            Stores(
                search=index,
                rows=index,
                roots=index,
                places=BoundedCache("places", most_bytes=MANIFEST_BYTES, seconds=KEPT_S),
                pages=BoundedCache("pages", most_bytes=MANIFEST_BYTES, seconds=KEPT_S),
                strong=RETRIEVAL.strong,
                generation=GENERATION,
            ),
            QueryDefaults(options=RETRIEVAL.options),
            Clocks(now=wall_clock, ns=time.monotonic_ns),
        )


class Asker:
    """Asks a retriever without a topic between."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    async def ask(self, query: ContextQuery, *, patience_s: float, token: str | None = None) -> ContextResult:  # noqa: ARG002 - as a port says
        ((_, result, _),) = [answer async for answer in self._retriever.answer([(query, "")])]
        return result


@record
class Measured:
    """What came out."""

    made_with: Mapping[str, str]
    runs: Mapping[str, Mapping[str, Run]]
    """By the names of the set and of the configuration."""


async def measure(directories: Iterable[Path]) -> Measured:
    """Examine sets, each with an index of its own."""
    async with OnnxEmbedder(MODELS) as embedder:
        freki = Freki(embedder)
        runs = {directory.name: await freki.examine(_read(directory)) for directory in directories}
        return Measured(made_with=freki.made_with, runs=runs)


def _read(directory: Path) -> EvaluationSet:
    """Read a set with its questions that nothing answers, which its own form has no place for."""
    answerable, hopeless = read_set(directory), read_set(directory / "unanswerable.yaml")
    return replace(answerable, questions=(*answerable.questions, *hopeless.questions))
