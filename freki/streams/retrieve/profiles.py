"""Profiles: limits of the models that read the context, named by queries and defined by settings."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from freki.schemas.names import record
from freki.schemas.query_options import QueryOptions

DEFAULT = "default"
_PARTS = re.compile(r"[:/_\-\s]+")


@record
class ReaderProfile:
    """Values of options for a reader, unless a query overrides them."""

    context_tokens: int
    top_k: int
    min_similarity: float
    count_tokens: Callable[[Sequence[str]], Sequence[int]] | None = None
    """Token counter of the model; null: the embedder's."""

    def apply_to(self, options: QueryOptions) -> QueryOptions:
        """Return options with the limits of this reader."""
        return replace(
            options, context_tokens=self.context_tokens, top_k=self.top_k, min_similarity=self.min_similarity
        )


def profile_of(target_model: str, profiles: Mapping[str, ReaderProfile]) -> ReaderProfile | None:
    """Return the profile of a model: its own, else one named like a part of its name, else the default, if any.

    `llama3.1:70b` and `Llama-3.1-70B-Instruct` have the profile `70b`; of several parts, the first one counts.
    """
    return profiles.get(named_by(target_model, profiles) or DEFAULT)


def named_by(target_model: str, profiles: Collection[str]) -> str | None:
    """Return the name of the profile that a model or a part of its name matches, or None."""
    names = {name.lower(): name for name in profiles}
    model = target_model.strip().lower()
    return next((names[part] for part in (model, *_PARTS.split(model)) if part in names), None)
