"""An ODP becomes its slides, each a page."""

import pytest

from freki.operators.errors import UnreadableContent
from freki.operators.parse_office import parse_odp
from freki.schemas.outline import BlockKind
from tests.unit.outlines import headings, texts
from tests.unit.packages import odt, opendocument

_HIDDEN = (
    '<style:style style:name="dp2"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>'
)


def frame(text: str, kind: str = "outline") -> str:
    return f'<draw:frame presentation:class="{kind}"><draw:text-box>{text}</draw:text-box></draw:frame>'


def slide(*shapes: str, style: str = "dp1") -> str:
    return f'<draw:page draw:style-name="{style}">{"".join(shapes)}</draw:page>'


def test_each_slide_is_a_page_with_its_title_first_and_its_notes_last() -> None:
    notes = f"<presentation:notes>{frame('<text:p>Sprechen</text:p>', 'notes')}</presentation:notes>"
    listed = (
        "<text:list><text:list-item><text:p>eins</text:p></text:list-item>"
        "<text:list-item><text:p>zwei</text:p></text:list-item></text:list>"
    )

    document = parse_odp(
        opendocument(
            "presentation",
            slide(frame(listed), frame("<text:p>Fristen</text:p>", "title"), notes)
            + slide(frame("<text:p>Ende</text:p>", "title"), frame("<text:p>Seite 2</text:p>", "page-number")),
        )
    )

    assert headings(document) == [(1, "Fristen"), (1, "Ende")]
    assert texts(document, BlockKind.LIST) == ["- eins\n- zwei"]
    assert texts(document, BlockKind.PROSE) == ["Sprechen"]
    assert [document.text[start:][:4] for start in document.page_starts] == ["Fris", "Ende"]


def test_hidden_slides_are_left_out_but_counted() -> None:
    document = parse_odp(
        opendocument(
            "presentation",
            slide(frame("<text:p>geheim</text:p>"), style="dp2") + slide(frame("<text:p>offen</text:p>")),
            styles=_HIDDEN,
        )
    )

    assert document.text == "offen"
    assert document.page_starts == (0, 0)


@pytest.mark.parametrize(
    "space", ["http://openoffice.org/2010/draw", "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"]
)
def test_hidden_shapes_are_left_out(space: str) -> None:
    shapes = frame("<text:p>geheim</text:p>", "title") + frame("<text:p>offen</text:p>")
    hidden = shapes.replace("<draw:frame", f'<draw:frame xmlns:x="{space}" x:display="none"', 1)
    printed = frame("<text:p>gedruckt</text:p>").replace(
        "<draw:frame", f'<draw:frame xmlns:x="{space}" x:display="printer"'
    )

    document = parse_odp(opendocument("presentation", slide(hidden, printed)))

    assert document.text == "offen\n\ngedruckt"


def test_another_package_is_refused() -> None:
    with pytest.raises(UnreadableContent, match="no presentation document"):
        parse_odp(odt(""))
