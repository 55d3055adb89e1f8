"""Whether chunks fit what the embedders read: what is longer they cut off without a word."""

from freki.infra.models.cache import window_tokens
from freki.infra.settings import ModelSettings
from freki.schemas.errors import Misconfigured

CONTEXT_TOKENS = 84
"""Room for the document name and headings above a chunk (200 characters, about 60 tokens), prefix and special tokens."""


def check_window(settings: ModelSettings, *, max_tokens: int) -> list[str]:
    """Check that chunks of `max_tokens` and their context fit the embedders.

    Raises Misconfigured, naming the settings, where the default embedder would cut off text. Returns a remark for each
    additional embedder that may: its tokenizer counts otherwise than the one that sizes chunks.
    """
    room = window_tokens(settings.embedder) - CONTEXT_TOKENS
    if max_tokens > room and not settings.late_window_tokens:
        raise Misconfigured(
            f"FREKI_CHUNKING__MAX_TOKENS={max_tokens}: chunks with a context of up to {CONTEXT_TOKENS} tokens are longer "
            f"than the {room + CONTEXT_TOKENS} tokens that FREKI_MODELS__EMBEDDER={settings.embedder} reads, which would "
            f"cut them off: set FREKI_CHUNKING__MAX_TOKENS to at most {room}, or choose another embedder"
        )
    return [
        f"FREKI_MODELS__EMBEDDERS__{kind}={chosen} reads {window} tokens and cuts off the end of chunks that are longer "
        f"with their context: set FREKI_CHUNKING__MAX_TOKENS to at most {window - CONTEXT_TOKENS}, or smaller sizes for "
        "the formats that it embeds"
        for kind, chosen in settings.apart.items()
        if (window := window_tokens(chosen)) < max_tokens + CONTEXT_TOKENS
    ]
