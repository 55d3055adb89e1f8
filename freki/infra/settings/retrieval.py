"""Settings of retrieval: defaults of query options, profiles of readers, judgements of users."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, create_model, model_validator

from freki.infra.settings.section import RELOADS, RELOADS_WHILE_ON, SettingsSection, check_ascending
from freki.schemas.query_options import QUERY_OPTIONS, QueryOption, QueryOptions


def _limits(name: str) -> dict[str, Any]:
    """Return the constraints of a number; none for other options."""
    option = QUERY_OPTIONS[name]
    if option.bounds is not None:
        return {"ge": option.bounds[0], "le": option.bounds[1]}
    return {"allow_inf_nan": False} if option.value_type is float else {}


class ContextProfile(SettingsSection):
    """Limits of a model that reads the context."""

    context_tokens: Annotated[int, Field(**_limits("context_tokens"))] = Field(
        description="Maximum number of tokens of the context text"
    )
    hits: Annotated[int, Field(**_limits("top_k"))] = Field(description="How many hits")
    min_similarity: Annotated[float, Field(**_limits("min_similarity"))] = Field(
        default=0.0, description="Minimum similarity of a hit"
    )
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


def _option_field(option: QueryOption) -> tuple[Any, Any]:
    """Return the type and the field of the setting of an option."""
    setting = Field(
        default=option.default, description=option.description, json_schema_extra=RELOADS, **_limits(option.name)
    )
    return option.annotation, setting


if TYPE_CHECKING:

    class _OptionSettings(QueryOptions, SettingsSection):  # type: ignore[misc] # frozen by its configuration
        """Defaults of query options."""
else:
    _OptionSettings = create_model(
        "_OptionSettings",
        __base__=SettingsSection,
        **{option.name: _option_field(option) for option in QUERY_OPTIONS.values() if option.has_setting},
    )


class RetrievalSettings(_OptionSettings):  # type: ignore[misc] # as above
    """Defaults of query options, and how the retrieve stage works."""

    widen_llm_s: float = Field(
        default=2.0,
        gt=0,
        description="Longest wait for a language model that rephrases",
        json_schema_extra=RELOADS,
    )
    thesaurus: Path | None = Field(
        default=None,
        description="File with synonyms of the domain, for SYNONYMS in `widen`: docs/queries.md",
    )
    profiles: Mapping[str, ContextProfile] = Field(
        default={},
        description="Profiles for `target_model`, besides or instead of those in docs/queries.md",
        json_schema_extra=RELOADS,
    )
    max_query_chars: int = Field(default=1_000_000, ge=1, description="Longest query", json_schema_extra=RELOADS)
    strong: bool = Field(default=True, description="Strong consistency for every search")
    reply_topics: tuple[str, ...] = Field(
        default=(), description="Topics that queries may name in `reply_to`", json_schema_extra=RELOADS
    )
    batch_queries: int = Field(default=8, ge=1, description="Maximum number of queries answered together")
    batches: int = Field(
        default=6, ge=1, description="Maximum number of such batches at a time: a new one waits for no other"
    )
    row_cache_mb: int = Field(
        default=128,
        ge=0,
        description="Memory for rows that were read, in MiB, about 10 for 1,000 chunks; 0: each query reads its rows",
    )
    cache_mb: int = Field(
        default=0,
        ge=0,
        description="Room for answers, candidates and vectors of queries asked again, in MiB; 0: none",
        json_schema_extra=RELOADS_WHILE_ON,
    )
    cache_s: float = Field(default=60, gt=0, description="Longest that any of these is kept", json_schema_extra=RELOADS)

    @property
    def options(self) -> QueryOptions:
        """Options of a query that overrides none."""
        given = {option.name: getattr(self, option.name) for option in QUERY_OPTIONS.values() if option.has_setting}
        return QueryOptions(**given, cached=self.cache_mb > 0)

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


class FeedbackSettings(SettingsSection):
    """Influence of user judgements on later rankings: docs/queries.md."""

    read: bool = Field(default=False, description="Do workers that answer read the topic of judgements?")
    most: int = Field(
        default=20_000, ge=1, description="Maximum number of judgements that a worker keeps: 2 kB each, the latest"
    )
    most_of_judge: int = Field(default=500, ge=1, description="Maximum number of judgements of one judge, the latest")
    half_life_days: float = Field(default=90.0, gt=0, description="After so long a judgement counts half")
    least_cosine: float = Field(
        default=0.9, ge=-1, lt=1, description="Queries whose vectors are less alike say nothing of each other"
    )

    @model_validator(mode="after")
    def _check_most(self) -> Self:
        check_ascending({"FEEDBACK__MOST_OF_JUDGE": self.most_of_judge, "FEEDBACK__MOST": self.most})
        return self
