"""Reads docker-compose.yml and the Dockerfile as Docker does: which environment a container's process gets.

Of Compose's interpolation this has `$VAR`, `${VAR}`, `:-` and `-`, `:?` and `?`, `:+` and `+`, nested defaults, `$$`.
https://docs.docker.com/reference/compose-file/interpolation/
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR = re.compile(r":?[-?+]")


class BadCompose(Exception):
    """Compose would refuse the file; the message says why."""


def read_compose(variables: Mapping[str, str], path: Path = ROOT / "docker-compose.yml") -> dict[str, Any]:
    """Read a compose file with its anchors, interpolated with the variables that Compose runs with."""
    read: dict[str, Any] = _interpolated(yaml.safe_load(path.read_text(encoding="utf-8")), variables)
    return read


def process_environment(service: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, str]:
    """Give the environment of a service's process: the image's, then the service's own over it.

    A variable without a value is handed through from `variables` where it is set there. Raises BadCompose for a value
    that Compose takes for none, such as an unquoted `true`.
    """
    environment = image_environment()
    for name, value in service.get("environment", {}).items():
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            raise BadCompose(f"{name} is {value!r}: quote it")
        if value is not None:
            environment[name] = str(value)
        elif name in variables:
            environment[name] = variables[name]
    return environment


def image_environment(target: str | None = None) -> dict[str, str]:
    """Give what ENV sets in a target of the Dockerfile, `$PATH` of the image before it left out."""
    pairs = [pair for line in image_lines(target) if line.startswith("ENV ") for pair in line.split()[1:]]
    return {name: value.replace(":$PATH", "") for name, value in (pair.split("=", 1) for pair in pairs)}


def image_lines(target: str | None = None) -> list[str]:
    """Give the instructions that make a target of the Dockerfile, with those of the stages that it begins from.

    None: the last stage.
    """
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    stages: dict[str | None, list[str]] = {}
    for part in text.split("\nFROM ")[1:]:
        first, *lines = part.splitlines()
        base, _, name = first.partition(" AS ")
        stages[None] = stages[name or None] = [*stages.get(base, []), *lines]
    return stages[target]


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """Replace the variables in a text. Raises BadCompose where a required one is missing, or the text is malformed."""
    done, place = "", 0
    while (dollar := text.find("$", place)) >= 0:
        done += text[place:dollar]
        following = text[dollar + 1 : dollar + 2]
        if following == "$":
            done, place = f"{done}$", dollar + 2
        elif following == "{":
            end = _closing(text, dollar + 2)
            done, place = done + _expanded(text[dollar + 2 : end], variables), end + 1
        elif found := _NAME.match(text, dollar + 1):
            done, place = done + variables.get(found[0], ""), found.end()
        else:
            raise BadCompose(f"a lone $ in {text!r}: write $$")
    return done + text[place:]


def _interpolated(value: Any, variables: Mapping[str, str]) -> Any:
    """Interpolate values, not names, as Compose does."""
    if isinstance(value, str):
        return interpolate(value, variables)
    if isinstance(value, dict):
        return {name: _interpolated(each, variables) for name, each in value.items()}
    if isinstance(value, list):
        return [_interpolated(each, variables) for each in value]
    return value


def _closing(text: str, start: int) -> int:
    """Find the brace that ends an expression; defaults may hold expressions of their own."""
    depth, place = 1, start
    while place < len(text):
        depth += (text[place] == "{" and text[place - 1] == "$") - (text[place] == "}")
        if depth == 0:
            return place
        place += 1
    raise BadCompose(f"a brace is not closed in {text!r}")


def _expanded(expression: str, variables: Mapping[str, str]) -> str:
    name = _NAME.match(expression)
    if name is None:
        raise BadCompose(f"no variable is named in ${{{expression}}}")
    value, rest = variables.get(name[0]), expression[name.end() :]
    operator = _OPERATOR.match(rest)
    if operator is None:
        if rest:
            raise BadCompose(f"${{{expression}}} is malformed")
        return value or ""
    # With a colon an empty value counts as none.
    given = value if value or not operator[0].startswith(":") else None
    other = interpolate(rest[operator.end() :], variables)
    match operator[0][-1]:
        case "-":
            return other if given is None else given
        case "+":
            return "" if given is None else other
        case _:
            if given is None:
                raise BadCompose(f"{name[0]} is required: {other}")
            return given
