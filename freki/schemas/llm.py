"""Prompts, completions and token counts of language models."""

from freki.schemas.names import record


@record
class Prompt:
    """One request of a language model."""

    system: str
    """Instructions common to all requests, which allows prefix caching by the server."""
    user: str


@record
class Completion:
    """A completion of a prompt."""

    text: str
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens that the server had cached; 0 where it does not report them."""
    completion_tokens: int
    truncated: bool = False
    """Whether it reached the maximum of tokens, so that its end is missing."""


@record
class NoCompletion:
    """A failed request."""

    reason: str
    """Reason for operators of Freki, with the setting at fault; may quote the prompt."""
    gist: str = "it gave no answer"
    """Kind of failure, for the sender of the query."""


@record
class LlmUse:
    """What a language model did to situate the chunks of a revision."""

    written: int
    """Chunks whose context or summary it wrote now."""
    kept: int
    """Chunks that have one from before."""
    missing: int
    """Chunks that should have one and do not: publish the document again."""
    reason: str
    """Why the first of these is missing; empty where none is."""
    prompt_tokens: int
    cached_tokens: int
    """Of `prompt_tokens`, how many the server had read before; 0 where it does not say."""
    completion_tokens: int
