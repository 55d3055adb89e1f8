"""The outline of plain text."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from freki.schemas.divisions import ANNEXES, DIVISION, division_of
from freki.schemas.numerals import value_of_roman
from freki.schemas.outline import Block, BlockKind, ParsedDocument, one_line, tidy, visible

_PARAGRAPH = re.compile(r"\S.*(?:\n.*\S.*)*")
_SIGNED, _ROMAN, _PLAIN = "signed", "roman", ""
"""Kinds of headings by their number: behind a sign or word, Roman, decimal."""
_DIVISION = re.compile(DIVISION)
_ONLY_ANNEX = r"A(?i:nlage|nhang|nnex|ppendix)(?=[^\S\n]*(?:$|\n|[:–-][^\S\n]|\(zu\b))"
_ANNEX = re.compile(_ONLY_ANNEX)
_UNNAMED_DIVISION = re.sub(r"\?P<\w+>", "?:", DIVISION)
_HEADING = re.compile(
    rf"""
    (?: (?P<division>{DIVISION}) (?:[^\S\n]*(?:\n[^\S\n]*)?\(zu\b[^\n]{{0,100}}\))?
        # `Anlage 3 Nr. 2` refers to an annex, and a line of another one goes on with a list.
        (?: (?:[.:]?[^\S\n]+ | [^\S\n]*\n[^\S\n]*) (?!(?:Abs|Absatz|Satz|Nr|Nummer)\b|{_UNNAMED_DIVISION})
            [A-ZÄÖÜ(„“"»–-].{{0,200}} )?
      | (?P<annex>{_ONLY_ANNEX}) (?:[^\S\n]*(?:\n[^\S\n]*)?\(zu\b[^\n]{{0,100}}\))?
        (?: [^\S\n]*[:–\n-][^\S\n]* (?!{_UNNAMED_DIVISION}) [A-ZÄÖÜ„“"»].{{0,200}} )?
      | (?P<roman>[IVX]{{1,6}})\. [^\S\n]+ [A-ZÄÖÜ„“"»].{{0,100}}
      |
    """
    r"""
    # `[^\S\n]` also is the no-break space that word processors put after numbers.
        (?P<number>\d{1,3}(?:\.\d{1,3}){0,5})\.? [^\S\n]+ [^\W\d_].{0,100}
      | (?P<sign>§|Art(?:ikel|icle|\.|\b))(?:§|[^\S\n])* \d+[a-z]?(?:[-–]\d+[a-z]?)?
        # `§ 3 Abs. 2 BGB` refers to a paragraph.
        (?: (?:[.:]?[^\S\n]+ | [^\S\n]*\n(?:[^\S\n]*\n){0,3}[^\S\n]*(?=[A-ZÄÖÜ„“"»]))
            (?!(?:Abs|Absatz|Satz|Nr|Nummer)\b)(?:[^\W\d_]|[(„“"»–-]).{0,100} )?
      | (?:TOP|Tagesordnungspunkt) [^\S\n]* (?P<point>\d{1,2}(?:\.\d{1,2}){0,3})
        # `TOP 3 wird vertagt` is no title.
        (?: [.:]?[^\S\n]+ (?:[A-ZÄÖÜ]|[(„“"»–-]).{0,100} )?
    )(?<![.,;:!?])\Z
    """,
    re.VERBOSE,
)
# A date or an amount, which a heading may look like. `3. Euro` and `3. Tage` are titles, `3. August Macke` is too.
_MEASURE = re.compile(
    r"""
    (?: \d{1,2}\.? [^\S\n]+ (?i:
            januar|jänner|februar|feber|märz|mai|juni|juli|september|oktober|november|dezember
            |january|february|march|may|july|october|december
            |(?:april|august|june|jan|feb|mär|mar|apr|jun|jul|aug|sept?|o[ck]t|nov|de[cz])\b\.?
            (?! [^\S\n]+ (?-i:[A-ZÄÖÜ]) )
        )
      | \d{1,2}(?:\.\d\d)? [^\S\n]+ Uhr
      | \d{1,3}(?:\.\d{3})* [^\S\n]+ (?:
            Euro|EUR|Cent|Dollar|Franken|CHF|DM|Prozent|percent|Mio|Mrd|Millionen|Milliarden
            |Tagen?|(?:Werk|Arbeits|Kalender|Bank)tagen?|Wochen|Monaten?|Jahren?|Stunden|Minuten|Sekunden
            |(?:(?:working|business)[^\S\n])?days|weeks|months|years|hours|minutes|seconds
            |Stück|Kilogramm|Gramm|Tonnen|Meter|(?:Kilo|Zenti|Milli|Quadrat|Kubik)meter|Hektar|Liter
            |[kcm]?m[²³23]?|[km]?g|t|ha|[cmh]?l|k?Wh?|[KMGT]B
        )
      | 1 [^\S\n]+ (?:Tag|Woche|Monat|Jahr|Stunde|Minute)
    )
    (?![\w-])
    """,
    re.VERBOSE,
)
_FIRST_SUBSECTION = re.compile(r"\n[^\S\n]*(?=\(1\)\s)")
# What may be a heading right above its text: a title, also below `§ 3`, that begins with a capital.
_TITLED = re.compile(
    r"""(?:§+|Art(?:ikel|icle|\.)?|TOP|Tagesordnungspunkt)?[^\S\n]*\d[\d.–-]*[a-z]?[.:]?\s+(?:[–-]\s)?[(„“"»]?[A-ZÄÖÜ]"""
)
_WITHOUT_TITLE = re.compile(r"(?:§|Art(?:ikel|icle|\.)?)\s*\d+[a-z]?")
_BEGINNING = re.compile(r"""[^\S\n]*[(„“"»]?[A-ZÄÖÜ\d]""")
_NUMBER = re.compile(r"\s*(\d{1,3}(?:\.\d{1,3})*)[.)]?\s")
_SENTENCE_ENDS = (".", ":", ";", "!", "?")
_TITLE = re.compile(r"[^\n]{1,120}(?:(?<![.,;:!?])\n[^\S\n]*[a-zäöüß][^\n]{1,120})?(?<![\s.,;:!?])\Z")
# `Auental, 12. März 2024`, `Auental, den 12.3.2024`
_PLACE = re.compile(r"[^\n,]{2,40},[^\S\n]+(?:den[^\S\n]+)?\d{1,2}\.[^\n]{0,20}\Z")
_SALUTATION = re.compile(r"Sehr geehrte[rs]?\b|Guten Tag\b")
_SUBJECT = re.compile(r"\A(?:Betreff|Betr\.|Betrifft)\s*:?\s*")
_ITEM = re.compile(r"^[^\S\n]*(?:[-*+•–]|\d{1,3}[.)]|([a-z])\1?\))[^\S\n]", re.MULTILINE)


class _Paragraph(NamedTuple):
    start: int
    text: str
    """Without white space at its end."""


def parse_text(source: str) -> ParsedDocument:
    """Parse plain text into headings, paragraphs and lists, separated by blank lines.

    A heading is a single numbered line that does not end like a sentence: `1.2 Title` or `TOP 1.2 Title` at the level
    of its number; `§ 3 Title`, `Art. 3 Title`, `§ 3` at level 1, whose title may be the next line, also below a blank
    one; not a date (`15. Mai 2024`) or an amount (`30 Euro`). Above these are `Anlage 1 Title`, `Anlage` above text,
    `II. Teil`, `Erster Abschnitt`, and `I. Title` where `II.` follows, in the order in which they first enclose each
    other, annexes at level 1. Subsection `(1)` of a statute needs no blank line above it, nor do sentences below a line
    that ends although their first word would have fitted. Consecutive decimal or Roman
    numbers of the same level are a list, and consecutive paragraphs of a statute that all come again are its table of
    contents. A separate first line that does not end like a sentence is the title, with the next line if that begins
    with a small letter; else the line above `Sehr geehrte` is.
    """
    text = visible(tidy(source))
    paragraphs = _with_titles(text, [part for paragraph in _PARAGRAPH.finditer(text) for part in _parts(paragraph)])
    levels = _heading_levels([paragraph.text for paragraph in paragraphs])
    blocks = tuple(_block(paragraph, level) for paragraph, level in zip(paragraphs, levels, strict=True))
    return ParsedDocument(text=text, blocks=blocks, title=_title(text, blocks), attributes={})


def _title(text: str, blocks: Sequence[Block]) -> str | None:
    """Return the title of a document, or the subject of a letter."""
    subjects = [one for one, following in pairwise(blocks) if _SALUTATION.match(text, following.start)]
    for block in [*blocks[:1], *subjects[:1]] if len(blocks) > 1 else []:
        line = text[block.start : block.end]
        is_text = block.kind is BlockKind.PROSE or _DIVISION.match(line) or _ANNEX.match(line)
        if is_text and _TITLE.match(line) and not _MEASURE.match(line) and not _PLACE.match(line):
            return _SUBJECT.sub("", one_line(line))
    return None


def _parts(paragraph: re.Match[str]) -> Iterator[_Paragraph]:
    """Yield a paragraph, headings apart from the text right below them."""
    start, text = paragraph.start(), paragraph.group().rstrip()
    while heading := _above_subsection(text) or _above_text(text):
        yield _Paragraph(start, heading)
        below = text[len(heading) :]
        start, text = start + len(text) - len(below.lstrip()), below.lstrip()
    yield _Paragraph(start, text)


def _with_titles(text: str, paragraphs: Sequence[_Paragraph]) -> list[_Paragraph]:
    """Join the number of a section with the title that stands below a blank line, and above text."""
    joined: list[_Paragraph] = []
    for place, each in enumerate(paragraphs):
        above = joined[-1] if joined else each
        whole = text[above.start : each.start + len(each.text)]
        if (
            0 < place < len(paragraphs) - 1
            and _WITHOUT_TITLE.fullmatch(above.text)
            and _HEADING.match(whole)
            and not (_HEADING.match(each.text) or _MEASURE.match(each.text))
        ):
            joined[-1] = _Paragraph(above.start, whole)
        else:
            joined.append(each)
    return joined


def _above_subsection(text: str) -> str:
    """Return the heading of a statute that stands above subsection `(1)`; empty without one."""
    first = _FIRST_SUBSECTION.search(text)
    heading = _HEADING.match(text[: first.start()].rstrip()) if first else None
    return heading.group() if heading and heading.group("sign") else ""


def _above_text(text: str) -> str:
    """Return the heading that stands above sentences: its line ends although the next word would have fitted."""
    lines = text.split("\n")
    size = 2 if _WITHOUT_TITLE.fullmatch(lines[0].rstrip()) else 1
    above, below = "\n".join(lines[:size]).rstrip(), lines[size:]
    heading = None if _MEASURE.match(above) else _HEADING.match(above)
    if not (heading and below and _TITLED.match(above) and text.endswith(_SENTENCE_ENDS)):
        return ""
    if (
        not _BEGINNING.match(below[0])
        or _SALUTATION.match(below[0])
        or any(_is_sibling(heading, line) for line in below)
    ):
        return ""
    fits = len(lines[size - 1].rstrip()) + 1 + len(below[0].split(maxsplit=1)[0]) <= max(map(len, below))
    return above if fits else ""


def _is_sibling(heading: re.Match[str], line: str) -> bool:
    """Return whether a line has a number of the level of a heading, or of a higher one, as in a list."""
    if heading["number"]:
        number = _NUMBER.match(line)
        return number is not None and number[1].count(".") <= heading["number"].count(".")
    other = _HEADING.match(line.strip())
    return other is not None and other["number"] is None


def _block(paragraph: _Paragraph, level: int) -> Block:
    start, text = paragraph
    end = start + len(text)
    if level:
        return Block(kind=BlockKind.HEADING, start=start, end=end, heading_level=level, title=one_line(text))
    if not _ITEM.match(text):
        return Block(kind=BlockKind.PROSE, start=start, end=end)
    seams = tuple(start + item.start() for item in _ITEM.finditer(text) if item.start())
    return Block(kind=BlockKind.LIST, start=start, end=end, seams=seams)


def _heading_levels(paragraphs: Sequence[str]) -> Iterator[int]:
    """Yield the level of each paragraph, 0 for those that are no heading."""
    found = _without_initials(
        [None if _MEASURE.match(paragraph) else _HEADING.match(paragraph) for paragraph in paragraphs]
    )
    # At the end of a letter `Anlage` lists what is enclosed.
    if found and found[-1] and found[-1]["annex"]:
        found[-1] = None
    titles = [one_line(heading.group()) if heading else "" for heading in found]
    last = {title: index for index, title in enumerate(titles)}
    levels = _Levels()
    seen = 0
    for (depth, sign), run in groupby(found, key=_rank):
        headings = list(run)
        row = titles[seen : seen + len(headings)]
        seen += len(row)
        is_list = len(row) > 1 and depth > 0 and (sign != _SIGNED or all(last[title] >= seen for title in row))
        yield from (levels.of(heading, depth) if heading and not is_list else 0 for heading in headings)


def _without_initials(found: Sequence[re.Match[str] | None]) -> list[re.Match[str] | None]:
    """Return the headings without Roman numbers that do not count on from I to at least II: `V. Schmidt`."""
    kept = list(found)
    numbered = [(place, value_of_roman(each["roman"])) for place, each in enumerate(found) if each and each["roman"]]
    last = 0
    for (place, value), (_, following) in pairwise([*numbered, (0, 0)]):
        if value == last + 1 > 1 or (value, following) == (1, 2):
            last = value
        else:
            kept[place] = None
    return kept


def _rank(heading: re.Match[str] | None) -> tuple[int, str]:
    """Return the level of a heading by its own number, and its kind; level 0 without heading."""
    if not heading:
        return 0, ""
    if number := heading["number"] or heading["point"]:
        return number.count(".") + 1, _PLAIN
    return 1, _ROMAN if heading["roman"] else _SIGNED


def _kind_of(heading: re.Match[str]) -> str:
    if heading["division"]:
        return division_of(heading).kind
    return heading["annex"].casefold() if heading["annex"] else _ROMAN if heading["roman"] else _PLAIN


class _Levels:
    """The kinds of headings that enclose the next one, outermost first, with their levels."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._last = 0

    def of(self, heading: re.Match[str], depth: int) -> int:
        """Return the level of the next heading; depth: its level by its own number."""
        kind = _kind_of(heading)
        if kind in ANNEXES:
            self._cut(0)
        elif heading["division"]:
            self._close(_PLAIN)
        base = self._open.get(kind, self._last + 1)
        self._close(kind)
        self._open[kind] = base
        self._last = base + depth - 1
        return self._last

    def _close(self, kind: str) -> None:
        """Close what is open of a kind, and within it."""
        if kind in self._open:
            self._cut([*self._open].index(kind))

    def _cut(self, size: int) -> None:
        self._open = dict([*self._open.items()][:size])
        self._last = [0, *self._open.values()][-1]
