"""JSON schemas of tools, as those who call models want them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from freki.schemas.tools import Tool

Schema = dict[str, Any]


def untitled(schema: Mapping[str, Any]) -> Schema:
    """Leave out titles, and the description of the whole: they repeat names and stand elsewhere."""
    bare = _rewritten(schema, lambda inner: {key: value for key, value in inner.items() if key != "title"})
    return {key: value for key, value in bare.items() if key != "description"}


def strict(schema: Mapping[str, Any]) -> Schema:
    """Give a schema as OpenAI's strict mode takes it: every property is required, and there are no others.

    What may be left out elsewhere may be null here; defaults are left out.
    Source: platform.openai.com/docs/guides/structured-outputs, "Supported schemas".
    """
    return _rewritten(schema, _strict)


def functions(tools: Iterable[Tool]) -> list[Schema]:
    """Describe tools as OpenAI's function calling takes them."""
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
    """Change a schema and all that are in it, the inner ones first."""
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
