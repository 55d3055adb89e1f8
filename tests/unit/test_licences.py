"""Every file that ships has a known origin, and the licences travel with the package."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.licenses import canonicalize_license_expression

from freki.infra.models.registry import MODELS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NOTICE = (ROOT / "NOTICE").read_text(encoding="utf-8") if (ROOT / "NOTICE").exists() else ""
NAMED = re.findall(r"^(freki/\S+)$", NOTICE, re.MULTILINE)
LICENCES = {path.name: path for path in [ROOT / "LICENSE", *(ROOT / "licences").glob("*")]}
INSTALLED = distribution("freki").metadata


def shipped() -> set[Path]:
    """Give the files of the package that hold data, as `package-data` selects them."""
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["freki"]
    found = {path for pattern in patterns for path in (ROOT / "freki").glob(pattern) if path.is_file()}
    return {path for path in found if path.suffix != ".pyc" and path.name != "py.typed"}


def test_the_notice_names_every_data_file_that_ships() -> None:
    named = {path for pattern in NAMED for path in ROOT.glob(pattern)}

    assert sorted(map(str, shipped() - named)) == []


@pytest.mark.parametrize("pattern", NAMED)
def test_what_the_notice_names_ships(pattern: str) -> None:
    assert set(ROOT.glob(pattern)) & shipped(), "gone, or not in package-data"


def test_the_notice_names_every_model_that_can_be_chosen_with_its_licence() -> None:
    entries = [" ".join(entry.split()) for entry in NOTICE.split("\n\n")]

    for model in (model.description for model in MODELS.values()):
        assert any(
            model.name in entry and all(licence in entry for licence in model.licence.split(", ")) for entry in entries
        ), model.name


@pytest.mark.parametrize("name", LICENCES)
def test_every_licence_is_referred_to(name: str) -> None:
    assert name in NOTICE


def test_the_package_declares_its_licences() -> None:
    expression = PROJECT["project"]["license"]

    assert canonicalize_license_expression(expression) == expression
    assert {part.removesuffix(".txt") for part in LICENCES if part != "LICENSE"} == {
        part.removesuffix("-or-later").removeprefix("LicenseRef-")
        for part in expression.split(" AND ")
        if part != "Apache-2.0"
    }
    assert INSTALLED["License-Expression"] == expression, "installed before it was declared: run `make`"


def test_the_licences_travel_with_the_package() -> None:
    files = {"NOTICE", *(str(path.relative_to(ROOT)) for path in LICENCES.values())}

    assert set(INSTALLED.get_all("License-File") or ()) == files


def test_the_image_gets_all_that_the_package_is_built_from() -> None:
    copied = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    for name in ("LICENSE", "NOTICE", "licences"):
        assert re.search(rf"^COPY .*\b{name}\b", copied, re.MULTILINE)
        assert f"!{name}" in sent
