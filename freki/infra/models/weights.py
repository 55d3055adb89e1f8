"""Where the weights lie that come with Freki or with an installed package."""

from importlib import metadata, resources
from pathlib import Path

from freki.infra.models.descriptions import BundledSource, WheelSource

_HERE = "freki.infra.models"


def wheel_file(source: WheelSource) -> Path | None:
    """Return the weight file of an installed package, without importing it; None where it is not installed."""
    try:
        installed = metadata.distribution(source.package)
    except metadata.PackageNotFoundError:
        return None
    path = Path(str(installed.locate_file(f"{source.package}/{source.file}")))
    return path if path.is_file() else None


def bundled_file(source: BundledSource) -> Path:
    """Return the path of weights bundled with Freki."""
    return bundled_path(source.file)


def bundled_path(name: str) -> Path:
    """Return the path of a file bundled with Freki."""
    return Path(str(resources.files(_HERE).joinpath(name)))
