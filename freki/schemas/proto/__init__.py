"""The protobuf side of the records, for gRPC: `freki.proto` follows from the classes, as the Avro contracts do.

`python -m freki.schemas.proto` writes the lower part of `freki/v1/freki.proto` and compiles both files: `make schemas`.
"""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

PROTO_FILES = ("freki/v1/freki.proto", "freki/v1/wolf.proto")


def export_protos(directory: Path) -> Iterator[Path]:
    """Write the contracts for programs in other languages; yield the path of each."""
    for name in PROTO_FILES:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files(__name__).joinpath(name).read_bytes())
        yield path
