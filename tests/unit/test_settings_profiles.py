"""`FREKI_PROFILE`: values in place of defaults."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from freki.infra.settings import Settings
from freki.infra.settings.profiles import PROFILES, ProfileName
from freki.schemas import Fusion, Widening

pytestmark = pytest.mark.usefixtures("folder")
PAGE = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text(encoding="utf-8")


def leaves(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


def at(settings: Settings, path: tuple[str, ...]) -> Any:
    value: Any = settings
    for name in path:
        value = value[name] if isinstance(value, Mapping) else getattr(value, name)
    return value


@pytest.mark.parametrize("profile", ProfileName)
def test_a_profile_sets_all_that_it_names(profile: ProfileName, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_PROFILE", profile)

    settings = Settings()

    for path, value in leaves(PROFILES[profile]):
        assert at(settings, path) == value, path


def test_the_seeds_have_the_values_of_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_PROFILE", "seeds")

    settings = Settings()

    asked, chunks = settings.retrieval, settings.chunking
    assert (asked.mmr_lambda, asked.fusion, asked.rrf_k, asked.hybrid_alpha) == (0.5, Fusion.RRF, 60, 0.3)
    assert (asked.expand_documents, asked.expand_chunks, asked.expand_similarity) == (3, 20, 0.3)
    budgets = {name: (of.context_tokens, of.hits, of.min_similarity) for name, of in asked.profiles.items()}
    assert {name: budgets[name] for name in ("phi3", "default", "70b")} == {
        "phi3": (800, 3, 0.4),
        "default": (2000, 5, 0.3),
        "70b": (4000, 10, 0.25),
    }
    assert (asked.context_tokens, asked.top_k, asked.min_similarity) == budgets["default"]
    assert set(asked.widen) >= {Widening.SYNONYMS, Widening.STATEMENT}
    assert (chunks.least_similarity, chunks.min_tokens, chunks.max_tokens) == (0.7, 30, 256)
    sizes = {name: (each.max_chars, each.overlap_chars) for name, each in chunks.profiles.items()}
    assert sizes == {
        "pdf": (1000, 150),
        "text": (800, 120),
        "markdown": (1200, 150),
        "html": (1200, 50),
        "code": (600, 80),
        "docx": (800, 120),
    }


def test_what_is_set_by_itself_wins_over_a_profile_of_either_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "freki.toml").write_text('profile = "seeds"\n[retrieval]\nrrf_k = 10\ntop_k = 9\n', encoding="utf-8")
    monkeypatch.setenv("FREKI_RETRIEVAL__TOP_K", "7")
    monkeypatch.setenv("FREKI_RETRIEVAL__MIN_SIMILARITY", "none")
    monkeypatch.setenv("FREKI_RETRIEVAL__PROFILES__PHI3__HITS", "4")

    asked = Settings().retrieval

    assert (asked.top_k, asked.rrf_k, asked.min_similarity, asked.mmr_lambda) == (7, 10, None, 0.5)
    assert (asked.profiles["phi3"].hits, asked.profiles["phi3"].context_tokens) == (4, 800)


def test_without_a_profile_the_defaults_hold() -> None:
    assert Settings().retrieval.mmr_lambda == 0.7


def test_the_page_says_of_each_value_that_is_no_default_why(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Settings()
    monkeypatch.setenv("FREKI_PROFILE", "seeds")
    seeds = Settings()
    paths = [path for path, _ in leaves(PROFILES[ProfileName.SEEDS]) if "profiles" not in path]
    moved = {path for path in paths if at(seeds, path) != at(usual, path)}

    rows = re.findall(r"^\| `FREKI_(\w+)` \| `([^`]+)` \| (?:`([^`]+)`|none) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    told = {tuple(name.lower().split("__")): (value, default) for name, value, default, _ in rows}

    assert set(told) == moved
    for path, (value, default) in told.items():
        assert value == shown(at(seeds, path)), path
        assert (default or "None") == shown(at(usual, path)), path


def shown(value: Any) -> str:
    return json.dumps(value) if isinstance(value, tuple) else str(value)
