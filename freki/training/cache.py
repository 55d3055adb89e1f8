"""A cache of arrays on disk, keyed by the hash of everything they depend on."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


class ArrayCache:
    """A folder of NumPy archives, which may be deleted at any time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, decided_by: Iterable[str], compute: Callable[[], Arrays]) -> Arrays:
        """Return cached arrays, or compute and store them; decided_by: everything that they depend on."""
        path = self._directory / f"{hash_of(decided_by)}.npz"
        if path.is_file():
            with np.load(path, allow_pickle=False) as archive:
                return dict(archive)
        arrays = compute()
        self._keep(path, arrays)
        return arrays

    def _keep(self, path: Path, arrays: Arrays) -> None:
        """Write atomically, by renaming a temporary file."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._directory, suffix=".part", delete=False) as file:
            np.savez(file, allow_pickle=False, **arrays)
        os.replace(file.name, path)  # noqa: PTH105 - a name, not a path


def hash_of(texts: Iterable[str]) -> str:
    """Return a hash of delimited texts as 32 hexadecimal digits."""
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:32]
