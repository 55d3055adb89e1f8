"""What a model that reads the context can take: queries name the model, settings say what it takes."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from freki.schemas.names import record
from freki.schemas.query_options import QueryOptions

DEFAULT = "default"
_PARTS = re.compile(r"[:/_\-\s]+")


@record
class ReaderProfile:
    """Values of options that hold where a query does not turn them itself."""

    context_tokens: int
    top_k: int
    min_similarity: float
    count_tokens: Callable[[Sequence[str]], Sequence[int]] | None = None
    """As that model counts; None: as the embedder does."""

    def apply_to(self, options: QueryOptions) -> QueryOptions:
        """Return options with the limits of this reader."""
        return replace(
            options, context_tokens=self.context_tokens, top_k=self.top_k, min_similarity=self.min_similarity
        )


def profile_of(target_model: str, profiles: Mapping[str, ReaderProfile]) -> ReaderProfile | None:
    """Choose the profile of a model: its own, else one named like a part of its name, else the default, if there is.

    `llama3.1:70b` and `Llama-3.1-70B-Instruct` have the profile `70b`; of several parts the first one counts.
    """
    return profiles.get(named_by(target_model, profiles) or DEFAULT)


def named_by(target_model: str, profiles: Collection[str]) -> str | None:
    """Give the name of the profile that a model, or a part of its name, names; None: it names none."""
    names = {name.lower(): name for name in profiles}
    model = target_model.strip().lower()
    return next((names[part] for part in (model, *_PARTS.split(model)) if part in names), None)
