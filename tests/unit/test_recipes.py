"""CONTRIBUTING.md names files and packages that exist."""

import re
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:freki|tests|docs|bench|deploy|licences)/[^`\s]*)`", TEXT)))


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("path", PATHS)
def test_each_path_exists(path: str) -> None:
    """Of a name that is to be chosen, as in `freki/cli/<name>.py`, the folder."""
    fixed = "/".join(takewhile(lambda part: "<" not in part, path.split("/")))
    assert (ROOT / fixed).exists()


def test_each_recipe_names_a_file() -> None:
    recipes = re.split(r"\n- ", section("Where the next thing goes"))[1:]

    assert len(recipes) > 10
    for recipe in recipes:
        assert re.search(r"`(?:freki|tests|docs|bench)/|`NOTICE`", recipe), recipe


def test_the_packages_are_the_folders() -> None:
    tree = section("Packages").split("```")[1]
    drawn = {name.rstrip("/") for name in re.findall(r"^  (\w+/)", tree, re.MULTILINE)}
    within = {name.rstrip("/") for name in re.findall(r"^    (\w+(?:/|\.py))", tree, re.MULTILINE)}

    assert drawn == {path.parent.name for path in (ROOT / "freki").glob("*/__init__.py")}
    streams = ROOT / "freki" / "streams"
    assert within == {path.parent.name for path in streams.glob("*/__init__.py")} | {
        path.name for path in streams.glob("*.py") if path.name != "__init__.py"
    }
