"""JSON schemas of tools in the forms that model APIs take."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from freki.schemas.tools import Tool

Schema = dict[str, Any]


def untitled(schema: Mapping[str, Any]) -> Schema:
    """Drop titles and the top description, which repeat names and the description of the tool."""
    bare = _rewritten(schema, lambda inner: {key: value for key, value in inner.items() if key != "title"})
    return {key: value for key, value in bare.items() if key != "description"}


def strict(schema: Mapping[str, Any]) -> Schema:
    """Return a schema for OpenAI's strict mode: every property is required, and no others are allowed.

    Optional properties may be null; defaults are dropped.
    Source: platform.openai.com/docs/guides/structured-outputs, "Supported schemas".
    """
    return _rewritten(schema, _strict)


def functions(tools: Iterable[Tool]) -> list[Schema]:
    """Describe tools for OpenAI's function calling."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "strict": True,
                "parameters": strict(tool.arguments),
            },
        }
        for tool in tools
    ]


def _strict(schema: Schema) -> Schema:
    kept = {key: value for key, value in schema.items() if key != "default"}
    if kept.get("type") == "object":
        kept |= {"required": list(kept.get("properties", {})), "additionalProperties": False}
    return kept


def _rewritten(schema: Mapping[str, Any], change: Callable[[Schema], Schema]) -> Schema:
    """Apply a change to a schema and all schemas in it, inner ones first."""
    made: Schema = {}
    for key, value in schema.items():
        match key:
            case "properties" | "$defs":
                made[key] = {name: _rewritten(inner, change) for name, inner in value.items()}
            case "items":
                made[key] = _rewritten(value, change)
            case "anyOf":
                made[key] = [_rewritten(inner, change) for inner in value]
            case _:
                made[key] = value
    return change(made)
