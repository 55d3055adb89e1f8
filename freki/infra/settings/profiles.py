"""Named sets of values, below the environment and `freki.toml`, above the defaults; reasons are in docs/profiles.md."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

_TABLE = Mapping[str, Mapping[str, Any]]


class ProfileName(StrEnum):
    """Sets of values that a setting selects."""

    SEEDS = "seeds"
    """Those of the documents that Freki was specified by."""


PROFILES: Mapping[ProfileName, _TABLE] = {
    ProfileName.SEEDS: {
        "retrieval": {
            "top_k": 5,
            "context_tokens": 2000,
            "min_similarity": 0.3,
            "fusion": "RRF",
            "rrf_k": 60,
            "hybrid_alpha": 0.3,
            "keyword_alpha": 0.3,
            "widen": ("SPELLING", "STATEMENT", "SYNONYMS"),
            "widen_when": "ALWAYS",
            "mmr_lambda": 0.5,
            "expand_documents": 3,
            "expand_chunks": 20,
            "expand_similarity": 0.3,
            "parents": True,
            "neighbours": 1,
            "citations": "QUELLE",
            "profiles": {
                "phi3": {"context_tokens": 800, "hits": 3, "min_similarity": 0.4},
                "1b": {"context_tokens": 800, "hits": 3, "min_similarity": 0.4},
                "default": {"context_tokens": 2000, "hits": 5, "min_similarity": 0.3},
                "70b": {"context_tokens": 4000, "hits": 10, "min_similarity": 0.25},
                "72b": {"context_tokens": 4000, "hits": 10, "min_similarity": 0.25},
            },
        },
        "chunking": {
            "least_similarity": 0.7,
            "min_tokens": 30,
            "max_tokens": 256,
            "pdf": {"max_chars": 1000, "overlap_chars": 150},
            "text": {"max_chars": 800, "overlap_chars": 120},
            "markdown": {"max_chars": 1200, "overlap_chars": 150},
            "html": {"max_chars": 1200, "overlap_chars": 50},
            "code": {"max_chars": 600, "overlap_chars": 80},
            "docx": {"max_chars": 800, "overlap_chars": 120},
        },
        "contexts": {
            "llm": False,
            "summaries": False,
            "batch_chunks": 5,
            "min_chars": 50,
            "document_chars": 8000,
        },
    },
}
"""Values by profile, also where they are the defaults: these may move, the profile does not."""


class Profile(PydanticBaseSettingsSource):
    """Values of the profile that the sources before it select."""

    def __call__(self) -> dict[str, Any]:
        """Return the values; none for a name that is no profile, which validation refuses."""
        name = str(self.current_state.get("profile", "")).lower()
        return _copied(PROFILES[ProfileName(name)]) if name in set(ProfileName) else {}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        """Return no value for a field by itself: profiles are read as a whole."""
        return None, field_name, False


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables that sources may change."""
    return {name: _copied(value) if isinstance(value, Mapping) else value for name, value in values.items()}
