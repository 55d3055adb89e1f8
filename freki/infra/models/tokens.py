"""Token counts of the embedder, without loading its weights."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.tokenizer import open_text_tokenizer, open_tokenizer_file
from freki.infra.settings import REMOTE, ModelSettings
from freki.schemas.errors import Misconfigured

_COUNTING = "multilingual-e5-small"
"""Model whose tokenizer counts for a service that does not say its own."""
CountTokens = Callable[[Sequence[str]], list[int]]


async def open_token_counter(settings: ModelSettings) -> CountTokens:
    """Open the tokenizer of the chosen embedder, making the model if it is not in the cache.

    The result counts each text, without special tokens and without a limit. Thread-safe.
    """
    if settings.embedder == REMOTE and settings.remote.tokenizer is not None:
        return await asyncio.to_thread(open_counter, settings.remote.tokenizer.expanduser())
    chosen = _COUNTING if settings.embedder == REMOTE else settings.embedder
    directory = await asyncio.to_thread(obtain, settings, chosen, ModelKind.EMBEDDER)
    return (await asyncio.to_thread(open_text_tokenizer, directory)).count


def open_counter(path: Path) -> CountTokens:
    """Open a `tokenizer.json`. Raises Misconfigured, naming the file, where it is invalid."""
    try:
        return open_tokenizer_file(path).count
    except OSError as error:
        raise Misconfigured(f"no tokenizer can be read from {path}: {error.strerror}; correct the path") from error
