"""Conversion of files by Chromium and LibreOffice."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.formats.truth import Truth
from bench.formats.write import page

_LIMIT_S = 600
_CONVERSIONS = (
    # Source format, target format, suffix of the copy's name.
    ("docx", "pdf", "lo.pdf"),
    ("docx", "odt", "lo.odt"),
    ("docx", "doc", "lo.doc"),
    ("docx", "rtf", "lo.rtf"),
    ("lo.odt", "docx", "lo.docx"),
    ("pptx", "odp", "lo.odp"),
    ("pptx", "pdf", "slides.pdf"),
    ("pptx", "ppt", "lo.ppt"),
    ("xlsx", "ods", "lo.ods"),
    ("xlsx", "xls", "lo.xls"),
)


def print_pages(chromium: str, truths: Sequence[Truth], folder: Path) -> Iterator[Path]:
    """Print each document to PDF, in one column and in two."""
    for truth in truths:
        for columns in (1, 2):
            source, target = folder / "printed.html", folder / f"{truth.name}.{columns}col.pdf"
            source.write_text(page(truth, columns=columns), encoding="utf-8")
            subprocess.run(  # noqa: S603 - a program that the user names
                [
                    *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"),
                    *(f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={target}", source.as_uri()),
                ],
                check=True,
                capture_output=True,
                timeout=_LIMIT_S,
            )
            source.unlink()
            yield target


def convert(soffice: str, truths: Sequence[Truth], folder: Path) -> Iterator[Path]:
    """Convert each document to every other format of LibreOffice."""
    for before, after, called in _CONVERSIONS:
        out = folder / "converted"
        sources = [folder / f"{truth.name}.{before}" for truth in truths]
        subprocess.run(  # noqa: S603 - a program that the user names
            [soffice, "--convert-to", after, "--outdir", str(out), *map(str, sources)],
            check=True,
            capture_output=True,
            timeout=_LIMIT_S,
        )
        for truth, source in zip(truths, sources, strict=True):
            yield (out / f"{source.stem}.{after}").rename(folder / f"{truth.name}.{called}")
