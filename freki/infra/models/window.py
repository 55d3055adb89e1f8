"""Whether chunks fit what the embedders read: what is longer they cut off without a word."""

from freki.infra.models.cache import window_tokens
from freki.infra.settings import ModelSettings
from freki.infra.settings.ingest import LEAST_MAX_TOKENS
from freki.schemas.errors import Misconfigured

CONTEXT_TOKENS = 84
"""Room for document name and headings above a chunk (200 characters, about 60 tokens), prefix and special tokens."""
_CHARS_PER_TOKEN = 3
"""Of a context by a language model: German has 3 to 4."""


def check_window(settings: ModelSettings, *, max_tokens: int, written_chars: int = 0) -> list[str]:
    """Check that chunks of `max_tokens` and their context fit the embedders.

    written_chars: maximum length of contexts by a language model; 0: there are none.

    Raises Misconfigured, naming the settings, where the default embedder would cut off text. Returns a remark for each
    additional embedder that may: its tokenizer counts otherwise than the one that sizes chunks.
    """
    context = CONTEXT_TOKENS + written_chars // _CHARS_PER_TOKEN
    room = window_tokens(settings, settings.embedder) - context
    if max_tokens > room and not settings.late_window_tokens:
        raise Misconfigured(
            f"FREKI_CHUNKING__MAX_TOKENS={max_tokens}: with up to {context} tokens of context chunks are longer "
            f"than the {room + context} that FREKI_MODELS__EMBEDDER={settings.embedder} reads, and would be cut "
            f"off: {_advice(room, written_chars)}"
        )
    return [
        f"FREKI_MODELS__EMBEDDERS__{kind}={chosen} reads {window} tokens and cuts off what is longer, with its "
        f"context: {_advice(window - context, written_chars)}, or fewer characters for the formats that it embeds"
        for kind, chosen in settings.kind_embedders.items()
        if (window := window_tokens(settings, chosen)) < max_tokens + context
    ]


def _advice(room: int, written_chars: int) -> str:
    """Return what lets chunks with their context fit a model that has room for so many tokens of a chunk."""
    if room < LEAST_MAX_TOKENS:
        return f"choose an embedder that reads more{', or FREKI_CONTEXTS__MAX_CHARS lower' if written_chars else ''}"
    shorter = ", FREKI_CONTEXTS__MAX_CHARS lower" if written_chars else ""
    return f"set FREKI_CHUNKING__MAX_TOKENS to at most {room}{shorter}, or choose another embedder"
