"""Settings of retrieval: defaults of query options, profiles of readers, judgements of users."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from freki.infra.settings.section import Section, check_ascending
from freki.schemas import Widening, WidenWhen


class ContextProfile(Section):
    """Limits of a model that reads the context."""

    context_tokens: int = Field(ge=50, description="Most tokens of the context text")
    hits: int = Field(ge=1, le=200, description="How many hits")
    min_similarity: float = Field(default=0.0, description="Least similarity of a hit")
    tokenizer: Path | None = Field(
        default=None, description="`tokenizer.json` of that model, which counts the tokens; none: the embedder's"
    )


PROFILES: Mapping[str, ContextProfile] = {
    "phi3": ContextProfile(context_tokens=800, hits=3, min_similarity=0.4),
    "1b": ContextProfile(context_tokens=800, hits=3, min_similarity=0.4),
    "default": ContextProfile(context_tokens=2000, hits=5, min_similarity=0.3),
    "70b": ContextProfile(context_tokens=4000, hits=10, min_similarity=0.25),
    "72b": ContextProfile(context_tokens=4000, hits=10, min_similarity=0.25),
}
"""Built-in profiles."""


class RetrievalSettings(Section):
    """Defaults of query options, and how the retrieve stage works."""

    top_k: int = Field(default=8, ge=1, le=200, description="How many hits")
    hybrid_alpha: float | None = Field(
        default=None, ge=0, le=1, description="Weight of dense search; none: less the better the words match"
    )
    keyword_alpha: float = Field(default=0.4, ge=0, le=1, description="The same for queries of up to 3 words")
    lexical_pivot: float = Field(
        default=60, gt=0, description="BM25 score of the best match at which both searches weigh the same"
    )
    fusion: Literal["WEIGHTED", "RRF", "ZSCORE", "TMM", "ARCTAN"] = Field(
        default="WEIGHTED", description="How rankings become one"
    )
    rrf_k: int = Field(default=60, ge=1, description="k of reciprocal rank fusion")
    reranker: Literal["AUTO", "REMOTE", "VERTEX", "LOCAL", "LLM", "COSINE", "NONE"] = Field(
        default="AUTO", description="Which reranker is asked first: docs/queries.md"
    )
    widen: tuple[Widening, ...] = Field(
        default=(Widening.SPELLING,), description="Kinds of further searches: docs/queries.md"
    )
    widen_llm_s: float = Field(default=2.0, gt=0, description="Longest wait for a language model that rephrases")
    widen_when: WidenWhen = Field(default=WidenWhen.WEAK, description="When: always, or where the first one looks weak")
    rerank_candidates: int = Field(default=16, ge=0, le=500, description="How many candidates are rescored")
    usual_blend: float = Field(
        default=0.0, ge=0, le=1000, description="Log-odds that a fused score of 1 adds to the reranker's, in the order"
    )
    exact_blend: float = Field(
        default=4.0, ge=0, le=1000, description="The same for questions that name a norm, such as § 573c"
    )
    fold_at: float = Field(
        default=1.0, ge=0, le=1, description="Likeness from which on candidates count as one; 1: the same text"
    )
    per_document: int = Field(default=0, ge=0, le=200, description="Most hits of one document; 0: any number")
    mmr_lambda: float = Field(default=0.7, ge=0, le=1, description="1 is relevance only, 0 is diversity only")
    min_score: float = Field(default=0.0, description="Least score of a hit")
    parents: bool = Field(default=True, description="Give each hit the section around it")
    neighbours: int = Field(default=1, ge=0, le=10, description="Chunks before and after each hit")
    context_tokens: int = Field(default=2000, ge=50, description="Most tokens of the context text")
    citations: Literal["QUELLE", "DOCUMENT"] = Field(default="QUELLE", description="Form of citations")
    exact: bool = Field(default=True, description="Must hits hold what the question quotes, where any candidate does?")
    prototypes: bool = Field(default=True, description="Type questions that no rule knows by questions near to them?")
    profiles: Mapping[str, ContextProfile] = Field(
        default={}, description="Profiles for `target_model`, besides or instead of those in docs/queries.md"
    )
    min_similarity: float | None = Field(
        default=None, description="Least similarity of a hit: 0 as any two texts, 1 as answer and question; none: any"
    )
    expand_documents: int = Field(
        default=0, ge=0, le=10, description="Of how many of the best documents to show further chunks; 0: of none"
    )
    expand_chunks: int = Field(default=20, ge=0, le=100, description="Most further chunks of each")
    expand_similarity: float = Field(default=0.3, description="Least similarity of a further chunk")
    unrelated_cosine: float = Field(
        default=0.74, ge=-1, le=1, description="Similarity 0: the embedder's cosine of a question and any text"
    )
    related_cosine: float = Field(
        default=0.87, ge=-1, le=1, description="Similarity 1: its cosine of a question and its answer"
    )
    deadline_ms: int = Field(default=5000, ge=1, description="For queries that name none")
    max_query_chars: int = Field(default=1_000_000, ge=1, description="Longest question")
    strong: bool = Field(default=True, description="Strong consistency for every search")
    reply_topics: tuple[str, ...] = Field(default=(), description="Topics that queries may name in `reply_to`")
    batch_queries: int = Field(default=16, ge=1, description="Most queries answered together")
    batches: int = Field(default=4, ge=1, description="Most such batches at a time: a new one waits for no other")
    feedback: float = Field(
        default=0.0, ge=0, le=1, description="Most that judgements of users move a score; needs `FREKI_FEEDBACK__READ`"
    )
    cache_mb: int = Field(
        default=0,
        ge=0,
        description="Room for answers, candidates and vectors of questions asked again, in MiB; 0: none",
    )
    cache_s: float = Field(default=60, gt=0, description="Longest that any of these is kept")

    @model_validator(mode="after")
    def _check_scale(self) -> Self:
        """Refuse thresholds that no cosine (at most 1) can reach on the scale of similarity."""
        unrelated, related = self.unrelated_cosine, self.related_cosine
        check_ascending({"RETRIEVAL__UNRELATED_COSINE": unrelated, "RETRIEVAL__RELATED_COSINE": related}, strictly=True)
        highest = (1 - unrelated) / (related - unrelated)
        least = {
            f"PROFILES__{name.upper()}__MIN_SIMILARITY": each.min_similarity for name, each in self.profiles.items()
        }
        least |= {"MIN_SIMILARITY": self.min_similarity or 0.0, "EXPAND_SIMILARITY": self.expand_similarity}
        for name, similarity in least.items():
            if similarity > highest:
                raise ValueError(
                    f"FREKI_RETRIEVAL__{name}={similarity} is more than any text has: the most is {highest:.3g}, by "
                    "FREKI_RETRIEVAL__UNRELATED_COSINE and FREKI_RETRIEVAL__RELATED_COSINE; lower it"
                )
        return self


class FeedbackSettings(Section):
    """Influence of user judgements on later rankings: docs/queries.md."""

    read: bool = Field(default=False, description="Do workers that answer read the topic of judgements?")
    most: int = Field(default=20_000, ge=1, description="Most judgements that a worker keeps: 2 kB each, the latest")
    most_of_judge: int = Field(default=500, ge=1, description="Most of one judge, the latest")
    half_life_days: float = Field(default=90.0, gt=0, description="After so long a judgement counts half")
    least_cosine: float = Field(
        default=0.9, ge=-1, lt=1, description="Questions whose vectors are less alike say nothing of each other"
    )

    @model_validator(mode="after")
    def _check_most(self) -> Self:
        check_ascending({"FEEDBACK__MOST_OF_JUDGE": self.most_of_judge, "FEEDBACK__MOST": self.most})
        return self
