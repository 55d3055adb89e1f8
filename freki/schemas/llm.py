"""What a language model is asked, what it says, and what that took."""

from freki.schemas.names import record


@record
class Prompt:
    """One request of a language model."""

    system: str
    """What holds for all requests: the same text lets a server use what it has read before."""
    user: str


@record
class Completion:
    """What the model said."""

    text: str
    prompt_tokens: int
    cached_tokens: int
    """Of the prompt, how many the server had read before; 0 where it does not say."""
    completion_tokens: int


@record
class NoCompletion:
    """The model said nothing that counts."""

    reason: str
    """For who runs Freki: names the setting where one is to blame. May quote what was asked."""
    gist: str = "it gave no answer"
    """The kind of failure, for whoever asked."""


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
