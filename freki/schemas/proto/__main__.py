"""Rewrite `freki.proto` and compile all contracts: `python -m freki.schemas.proto`. Needs grpcio-tools."""

import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet

from freki.schemas import ContextQuery, ContextResult, DocumentChange, IndexOutcome
from freki.schemas.proto import PROTO_FILES
from freki.schemas.proto.derive import UsedNumbers, derive_messages

HERE = Path(__file__).parent
BELOW = "// ---- Below: derived from the records by `make schemas`. Change those, not this. ----\n"
ROOTS = {
    "ContextQuery": (ContextQuery, ("query_id", "asked_at", "reply_to")),
    "Document": (DocumentChange, ("operation", "claim")),
    "IndexOutcome": (IndexOutcome, ()),
    "ContextResult": (ContextResult, ()),
}
"""Record of each message, and what the server fills in."""


def main() -> None:
    """Write the messages below the services, then the modules of all files."""
    written = HERE / PROTO_FILES[0]
    text = written.read_text(encoding="utf-8")
    if BELOW not in text:
        sys.exit(f"{written} has no line that says where the derived part begins: {BELOW}")
    written.write_text(derived(text), encoding="utf-8")
    compile_into(HERE)


def derived(text: str) -> str:
    """Return the contract with messages as the records are now; text: as it was before, which gives the numbers."""
    services, _, before = text.partition(BELOW)
    return f"{services}{BELOW}\n{derive_messages(ROOTS, _taken(before), optional=['tenant'])}"


def compile_into(folder: Path) -> None:
    """Compile all contracts; exit with the compiler's code if it fails."""
    _compile(HERE, f"--python_out={folder}", f"--pyi_out={folder}", *PROTO_FILES)


def _taken(messages: str) -> dict[str, UsedNumbers]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "now.proto").write_text(f'syntax = "proto3";\n{messages}', encoding="utf-8")
        _compile(Path(folder), f"--descriptor_set_out={folder}/now", "now.proto")
        (file,) = FileDescriptorSet.FromString((Path(folder) / "now").read_bytes()).file
    return _numbers(file)


def _numbers(file: FileDescriptorProto) -> dict[str, UsedNumbers]:
    kinds: list[DescriptorProto | EnumDescriptorProto] = [*file.message_type, *file.enum_type]
    return {
        kind.name: UsedNumbers(
            {each.name: each.number for each in (kind.field if isinstance(kind, DescriptorProto) else kind.value)},
            _reserved(kind),
        )
        for kind in kinds
    }


def _reserved(kind: DescriptorProto | EnumDescriptorProto) -> list[int]:
    beyond = 0 if isinstance(kind, DescriptorProto) else 1  # the end of a range is part of it in enums only
    return [number for each in kind.reserved_range for number in range(each.start, each.end + beyond)]


def _compile(root: Path, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", *arguments], check=False)  # noqa: S603
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
