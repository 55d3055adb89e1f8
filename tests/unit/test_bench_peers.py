"""Environments of the peers that Freki is measured beside."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

_REQUIREMENTS = Path(__file__).parents[2] / "bench" / "peers" / "requirements"
_LOADED = """
import json, sys
import bench.peers.job, bench.peers.models
print(json.dumps([module.__file__ for name, module in sys.modules.items() if name.startswith(("freki.", "bench."))]))
"""


@pytest.fixture(scope="module")
def needed() -> set[str]:
    """Return the packages that the modules import which run in a peer's process."""
    found = subprocess.run([sys.executable, "-c", _LOADED], check=True, capture_output=True, text=True)
    imported = {name for file in json.loads(found.stdout) for name in _imported(Path(file))}
    packages = packages_distributions()
    # A namespace such as `opentelemetry` has modules of several packages.
    unique = [packages[name][0] for name in imported if len({*packages.get(name, ())}) == 1]
    return {str(canonicalize_name(name)) for name in unique} - {"freki"}


def _imported(file: Path) -> Iterator[str]:
    # Imports within functions happen only where what they serve is chosen.
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("file", sorted(_REQUIREMENTS.glob("*.txt")), ids=lambda file: file.stem)
def test_a_peer_has_what_the_shared_models_import(file: Path, needed: set[str]) -> None:
    pinned = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", file.read_text(), re.MULTILINE)}

    assert "onnxruntime" in needed
    assert needed <= pinned
