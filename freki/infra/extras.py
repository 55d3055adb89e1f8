"""Extras: packages that only some commands need."""

from importlib.util import find_spec
from pathlib import Path

from freki.schemas.errors import Misconfigured

_PACKAGES = {
    "crawl": ("playwright",),
    "eval": ("ir_measures", "scipy"),
    # pyarrow instead would be imported by pandas, and so by pymilvus: 35 MB in every process.
    "export": ("polars",),
    "mcp": ("mcp",),
    "models-export": ("torch", "transformers", "onnxscript", "safetensors"),
    "serve": ("fastapi", "uvicorn", "grpc_health", "grpc_reflection"),
    "train": ("safetensors", "scipy"),
}
"""As they are imported, by extra."""


def require(extra: str) -> None:
    """Raise Misconfigured if a package of an extra is not installed."""
    if missing := [package for package in _PACKAGES[extra] if find_spec(package) is None]:
        raise Misconfigured(f"{missing[0]} is not installed: {how_to_install(extra)}")


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra beside Freki as it is installed."""
    # Without the option, pip replaces an editable install by a copy.
    editable = "--editable " if (Path(__file__).parents[2] / "pyproject.toml").is_file() else ""
    return f"pip install {editable}'.[{extra}]' in the checkout of Freki"
