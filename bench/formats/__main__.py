"""Write files in all formats with common programs, parse them, and print what is found."""

import shutil
import sys
import sysconfig
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.formats.code import score_python
from bench.formats.convert import convert, print_pages
from bench.formats.score import Score, parsed, score
from bench.formats.truth import Truth, documents
from bench.formats.write import write
from freki.infra.sources.recorded import read_stream
from freki.infra.telemetry.provenance import provenance

_HERE = Path(__file__).resolve().parents[2]
_SHORTEST, _LONGEST = 4_000, 60_000
"""Length of a document in characters: enough for headings, little enough for slides."""


def main() -> None:
    """Write files, parse them, print the table."""
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    own = [*sorted((_HERE / "docs").glob("*.md")), *sorted((_HERE / "freki" / "samples").glob("*.md"))]
    truths = documents([*own, *arguments.streams], most=arguments.documents, shortest=_SHORTEST, longest=_LONGEST)
    files = [pair for truth in truths for pair in _files(truth, arguments)]
    names = {truth.name: truth for truth in truths}
    if arguments.soffice:
        files += [
            (path, names[path.name.partition(".")[0]]) for path in convert(arguments.soffice, truths, arguments.out)
        ]
    scores = dict(score(files))
    for stream in arguments.streams:
        scores[f"every change of {stream.name}"] = _whole_stream(stream)
    scores["Python's own library"] = score_python(Path(sysconfig.get_path("stdlib")))
    sys.stdout.write(f"{len(files)} files of {len(truths)} documents. {provenance()}\n\n{in_markdown(scores)}\n")


def _arguments() -> Namespace:
    parser = ArgumentParser(prog="make formats", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("formats"), help="folder for the files")
    parser.add_argument("--streams", type=Path, nargs="*", default=[], help="recorded streams with further documents")
    parser.add_argument("--documents", type=int, default=10, help="number of documents of each stream written as files")
    parser.add_argument("--soffice", default=shutil.which("soffice"), help="LibreOffice; without it, fewer formats")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="Chromium; without it, fewer PDFs")
    return parser.parse_args()


def _files(truth: Truth, arguments: Namespace) -> Iterator[tuple[Path, Truth]]:
    for path in write(truth, arguments.out):
        yield path, truth
    if arguments.chromium:
        for path in print_pages(arguments.chromium, [truth], arguments.out):
            yield path, truth


def _whole_stream(path: Path) -> Score:
    total = Score()
    for record in read_stream(path):
        if record.content is not None:
            parsed(record.name or record.document_id, record.content, total)
    return total


def in_markdown(scores: Mapping[str, Score]) -> str:
    """Return the scores as a Markdown table."""
    lines = [
        "| kind | files | MB | CPU s/MB | words found % | headings found (false) | tables found | refused |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for kind, one in sorted(scores.items()):
        refused = "; ".join(f"{count}: {reason}" for reason, count in one.refused.items()) or "0"
        words = f"{100 * one.words_found / one.words:.1f}" if one.words else ""
        false = "" if one.headings_false is None else f" ({one.headings_false})"
        headings = f"{one.headings_found} of {one.headings}{false}" if one.headings else ""
        tables = f"{one.tables_found} of {one.tables}" if one.tables else ""
        speed = f"{one.cpu_s / max(one.size, 1) * 1e6:.2f}"
        lines.append(
            f"| {kind} | {one.files} | {one.size / 1e6:.2f} | {speed} | {words} | {headings} | {tables} | {refused} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
