"""What an agent may call, and what it gets back."""

from collections.abc import Mapping
from typing import Any

from freki.schemas.names import record


@record
class Tool:
    """A function that a language model may call."""

    name: str
    title: str
    description: str
    """For the model: what it does and when to use it."""
    arguments: Mapping[str, Any]
    """JSON schema of an object."""
    results: Mapping[str, Any]
    """The same of `ToolReply.content`."""


@record
class ToolReply:
    """What a call gives."""

    text: str
    """For the model to read; what documents say stands between marks."""
    content: Mapping[str, Any] | None = None
    """The same as JSON; null where the call failed."""

    @property
    def failed(self) -> bool:
        """Does the text say why there is no result?"""
        return self.content is None
