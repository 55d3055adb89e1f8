"""Tools of agents, and their replies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from freki.schemas.names import TenantId, record


@record
class Tool:
    """A function that a language model may call."""

    name: str
    title: str
    description: str
    """Description for the model: purpose and usage."""
    arguments: Mapping[str, Any]
    """JSON schema of an object."""
    results: Mapping[str, Any]
    """JSON schema of `ToolReply.content`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """Who calls a tool over HTTP, by a token that was verified."""

    token: str = field(repr=False)
    tenant: TenantId


@record
class ToolReply:
    """Reply of a tool call."""

    text: str
    """Text for the model; content of documents is delimited."""
    content: Mapping[str, Any] | None = None
    """Content as JSON; None where the call failed."""

    @property
    def failed(self) -> bool:
        """Whether the call failed, and the text is the reason."""
        return self.content is None
