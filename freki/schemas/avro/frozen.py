"""Digests of the frozen versions, in the format of sha256sum: `cd versions && sha256sum --check SHA256SUMS`.

Lines are only ever appended, one for each new version.
"""

import hashlib
from importlib.resources.abc import Traversable
from pathlib import Path

SUMS = "SHA256SUMS"


def altered_files(versions: Traversable) -> list[str]:
    """Return the altered files below `versions`."""
    listed = _listed(versions)
    found = {name: hashlib.sha256(data).hexdigest() for name, data in _files(versions).items()}
    return [
        *(f"{name} is missing, but it is frozen: restore it" for name in listed if name not in found),
        *(
            f"{name} was changed after it was frozen: restore it, and let `make schemas` write the next version"
            for name, digest in found.items()
            if listed.get(name, digest) != digest
        ),
        *(f"{name} has no digest in {SUMS}: delete it, and run `make schemas`" for name in found if name not in listed),
    ]


def freeze(versions: Path, name: str, text: str) -> Path:
    """Write a new version and append its digest. Raises FileExistsError if it exists."""
    path = versions / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(text.encode())
    with (versions / SUMS).open("ab") as sums:
        sums.write(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n".encode())
    return path


def _listed(versions: Traversable) -> dict[str, str]:
    sums = versions / SUMS
    if not sums.is_file():
        return {}
    lines = (line.split("  ", 1) for line in sums.read_text(encoding="utf-8").splitlines())
    return {name: digest for digest, name in lines}


def _files(versions: Traversable) -> dict[str, bytes]:
    """Return the content of each version by its name, such as `DocumentChange/1.avsc`."""
    if not versions.is_dir():
        return {}
    records = sorted((entry for entry in versions.iterdir() if entry.is_dir()), key=lambda entry: entry.name)
    return {f"{record.name}/{file.name}": file.read_bytes() for record in records for file in record.iterdir()}
