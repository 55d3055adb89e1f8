"""Real files in real processes: what was made to do harm is refused, and the next one is parsed."""

import zlib
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from freki.infra.processes.child import Children
from freki.infra.settings import ParsingSettings
from freki.operators.errors import UnreadableContent
from freki.schemas.errors import Rejected
from freki.streams.ingest.parse import Parse, parse
from tests.files import docx_of, pdf_of
from tests.parsing import LIMITS
from tests.unit.pdfs import written

SMALL = ParsingSettings(max_memory_mb=256)


def pdf_bomb() -> bytes:
    """Pack 400 MB of drawing into one page of some 400 KB."""
    packer = zlib.compressobj(9)
    piece = b"BT /F1 12 Tf 10 10 Td (a) Tj ET\n" * 32_768
    drawn = b"".join([*(packer.compress(piece) for _ in range(400)), packer.flush()])
    return written(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R>>",
            4: b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(drawn), drawn),
        }
    )


@pytest.fixture
async def parse_apart() -> AsyncIterator[Parse]:
    async with Children(partial(parse, limits=LIMITS), SMALL) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "content", "refusal"),
    [
        ("bomb.pdf", pdf_bomb, (Rejected, "bomb.pdf: .*FREKI_PARSING__MAX_MEMORY_MB")),
        (
            "bomb.docx",
            lambda: docx_of("x" * 70_000_000),
            (UnreadableContent, "bomb.docx: .*FREKI_PARSING__MAX_UNPACKED_MB"),
        ),
        ("locked.pdf", lambda: pdf_of("Geheim", locked=True), (UnreadableContent, "locked.pdf: encrypted")),
    ],
)
async def test_a_hostile_file_is_refused_and_the_next_one_is_parsed(
    parse_apart: Parse, name: str, content: Callable[[], bytes], refusal: tuple[type[Exception], str]
) -> None:
    error, reason = refusal

    with pytest.raises(error, match=reason):
        await parse_apart(name, None, content())

    assert (await parse_apart("a.pdf", None, pdf_of("Fristen\nVier Wochen."))).document.page_starts == (0,)
