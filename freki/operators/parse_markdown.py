"""The outline of a Markdown document."""

import re
from collections.abc import Container, Iterable, Iterator
from functools import cache
from html import unescape
from itertools import accumulate, pairwise, takewhile

from markdown_it import MarkdownIt
from markdown_it.token import Token

from freki.schemas.outline import Block, BlockKind, ParsedDocument, as_attributes, header_rows, one_line, tidy, visible

_KINDS = {
    "paragraph_open": BlockKind.PROSE,
    "blockquote_open": BlockKind.PROSE,
    "hr": BlockKind.PROSE,
    "html_block": BlockKind.PROSE,
    "bullet_list_open": BlockKind.LIST,
    "ordered_list_open": BlockKind.LIST,
    "table_open": BlockKind.TABLE,
    "fence": BlockKind.CODE,
    "code_block": BlockKind.CODE,
}
_PARTS = {"list_item_open", "tr_open"}
# A key of YAML, not the beginning of a link, quote, list item or address in Markdown.
_KEY = r"""(?!\d+[.)][ \t])(?:[^\s#\-\[\]{}|>*&!%@`<][^\n]{0,60}?(?=:(?:\s|\Z))|[\w-]+(?=[ \t]*:(?!//)))"""
_CLOSE = r"(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
# Lines of any kind may follow a key, but none begins a paragraph: below a rule, a text would.
_FRONT_MATTER = re.compile(
    rf"---[ \t]*\n(?=(?:[ \t]*\n|\#.*\n)*(?:{_KEY}|{_CLOSE}))"
    rf"((?:(?!{_CLOSE}|(?:[ \t]*|\#.*)\n(?!\s|\#|-[ \t]|{_KEY}|{_CLOSE})).*\n)*){_CLOSE}"
)
_FIELD = re.compile(rf"^({_KEY})[ \t]*:(.*(?:\n(?:[ \t]+\S|(?!{_KEY})[^\s#]).*)*)", re.MULTILINE)
_YAML_ITEM = re.compile(r"\n[ \t]*-[ \t]+")
_FLOW_LIST = re.compile(r"\s*\[(.*)\]\s*", re.DOTALL)
_BLOCK_SCALAR = re.compile(r"\A\s*[|>][-+\d]*(?=\s)")
_BREAKS = {"softbreak", "hardbreak"}
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")
_HTML_TABLE = re.compile(r"<table[\s>]", re.IGNORECASE)
_HTML_ROW = re.compile(r"<tr[\s>]", re.IGNORECASE)
_HTML_CELL = re.compile(r"<t([dh])(?=[\s>])", re.IGNORECASE)
_HTML_TAG = re.compile(r"<[^<>]*>")
_MARKUP = re.compile(r"[*_`\[<&\\]")
_COMMENT, _COMMENT_END = "<!--", "-->"
_CODE = {"fence", "code_block"}
_NO_LINE_END = re.compile(r"[^\n]")
_BEFORE_COMMENTS = re.compile(rf"`+|\n|{_COMMENT}")
# Nested brackets take the inline parser superlinear time, and no real heading is longer.
_LONGEST_MARKED_TITLE = 500


def parse_markdown(source: str) -> ParsedDocument:
    """Parse CommonMark with tables into headings, paragraphs, lists, tables and code.

    Headings inside lists and quotes are part of them. Indented code that begins like a list item belongs to the
    preceding list, as in kramdown. A `<table>` up to a blank line is a table. YAML front matter is read as flat
    `name: value` fields, to which all lines below them belong: `title` gives the title, the others attributes; it stays
    in the text as a LIST. Without a title there, the first h1 gives it. Comments of HTML are blanked, except in code.
    """
    text = visible(tidy(source))
    front = _FRONT_MATTER.match(text)
    if _COMMENT in text:
        body = front.end() if front else 0
        text = text[:body] + _without_comments(text[body:])
    fields = (
        [(name.strip("\"' ").lower(), _plain_value(value)) for name, value in _FIELD.findall(front.group(1))]
        if front
        else []
    )
    blocks = [_front_block(front)] if front else []
    blocks += _joined_lists(text, _blocks(text, front.end() if front else 0))
    stated = next((one_line(value) for name, value in fields if name == "title"), None)
    first = next((block.title for block in blocks if block.heading_level == 1), None)
    attributes = as_attributes((name, value) for name, value in fields if name != "title")
    return ParsedDocument(text=text, blocks=tuple(blocks), title=stated or first, attributes=attributes)


@cache
def _block_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table").disable("reference")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


@cache
def _inline_parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _without_comments(body: str) -> str:
    """Blank the comments of HTML that no reader sees, but not those that code shows; all else keeps its place."""
    code = _lines_of_code(body)
    kept: list[str] = []
    start = place = line = looked_at = 0
    is_leading = True
    """Whether only blanks and comments are in the line up to `looked_at`."""
    marks = ""
    """Backticks of a code span that is open."""
    while found := _BEFORE_COMMENTS.search(body, place):
        sign, place = found.group(), found.end()
        if sign == "\n":
            line, marks, looked_at, is_leading = line + 1, "", place, True
        elif sign != _COMMENT:
            marks = "" if marks == sign else marks or sign
        elif not marks and line not in code:
            # `<!-->` is a whole comment.
            end = body.find(_COMMENT_END, found.start() + 2)
            if end < 0:
                break
            is_leading = is_leading and not body[looked_at : found.start()].strip()
            kept.append(body[start : found.start()])
            start = place = looked_at = end + len(_COMMENT_END)
            comment = body[found.start() : place]
            # Spaces at the beginning of a line would make what follows code.
            kept.append("\n" * len(comment) if is_leading else _NO_LINE_END.sub(" ", comment))
            line += comment.count("\n")
    return "".join([*kept, body[start:]])


def _lines_of_code(body: str) -> Container[int]:
    blocks = (token.map for token in _block_parser().parse(body) if token.type in _CODE and token.map)
    return {line for first, last in blocks for line in range(first, last)}


def _plain_value(value: str) -> str:
    flow = _FLOW_LIST.fullmatch(value)
    items = flow.group(1).split(",") if flow else _YAML_ITEM.split(_BLOCK_SCALAR.sub("", value))
    return ", ".join(filter(None, (item.strip().strip("\"'") for item in items)))


def _front_block(front: re.Match[str]) -> Block:
    seams = tuple(field.start() for field in _FIELD.finditer(front.string, 0, front.end(1)) if field.start() > 0)
    return Block(kind=BlockKind.LIST, start=0, end=len(front.group().rstrip()), seams=seams)


def _blocks(text: str, body_start: int) -> Iterator[Block]:
    """Yield the outermost blocks below the front matter."""
    body = text[body_start:]
    starts = list(accumulate((len(line) + 1 for line in body.split("\n")), initial=body_start))
    for opener, *inner in _outermost(_block_parser().parse(body)):
        first, last = opener.map or (0, 0)
        start, end = starts[first], starts[first] + len(text[starts[first] : starts[last]].rstrip())
        title = _plain_title(inner[0].content) if opener.type == "heading_open" else ""
        if start == end:
            continue
        if title:
            yield Block(kind=BlockKind.HEADING, start=start, end=end, heading_level=int(opener.tag[1]), title=title)
        elif opener.type == "html_block" and _HTML_TABLE.match(text[start:end].lstrip()):
            yield _html_table(text, start, end)
        else:
            parts = [starts[token.map[0]] for token in inner if token.type in _PARTS and token.level <= 2 and token.map]  # noqa: PLR2004
            # The first row of a table is not separated from its header.
            is_table = opener.type == "table_open"
            yield Block(
                kind=_kind(text, start, opener),
                start=start,
                end=end,
                seams=tuple(parts[2:] if is_table else parts[1:]),
                header_end=parts[1] if is_table and len(parts) > 1 else 0,
            )


def _outermost(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Yield each token of level 0 with those inside it."""
    group: list[Token] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            if group:
                yield group
            group = []
        group.append(token)
    if group:
        yield group


def _kind(text: str, start: int, opener: Token) -> BlockKind:
    if opener.type == "code_block" and _LIST_ITEM.match(text, start):
        return BlockKind.LIST
    return _KINDS.get(opener.type, BlockKind.PROSE)


def _html_table(text: str, start: int, end: int) -> Block:
    """Return a table of HTML: its header rows are those without `<td>`, else what `header_rows` makes of the rows."""
    # A table that contains a table is layout, and several are not one.
    is_one = len(_HTML_TABLE.findall(text, start, end)) == 1
    rows = [row.start() for row in _HTML_ROW.finditer(text, start, end)] if is_one else []
    cells = [_html_cells(text[row:after]) for row, after in pairwise([*rows, end])]
    headers = sum(1 for _ in takewhile(lambda row: all(tag == "h" for tag, _ in row), cells))
    if headers in (0, len(rows)):
        headers = header_rows([[content for _, content in row] for row in cells])
    # The first row is not separated from its header.
    header_end = rows[headers] if headers else 0
    return Block(kind=BlockKind.TABLE, start=start, end=end, seams=tuple(rows[headers + 1 :]), header_end=header_end)


def _html_cells(row: str) -> list[tuple[str, str]]:
    """Return each cell of a row: `d` or `h` of its tag, and its content as plain text."""
    _, *parts = _HTML_CELL.split(row)
    contents = (_HTML_TAG.sub("", f"<{content}") for content in parts[1::2])
    return [(tag.lower(), one_line(unescape(content))) for tag, content in zip(parts[::2], contents, strict=True)]


def _joined_lists(text: str, blocks: Iterable[Block]) -> list[Block]:
    joined: list[Block] = []
    for block in blocks:
        before = joined[-1] if joined else None
        if block.kind is BlockKind.LIST and before and before.kind is BlockKind.LIST:
            # Indented code that continues the preceding row.
            edge = () if text[block.start].isspace() else (block.start,)
            seams = (*before.seams, *edge, *block.seams)
            joined[-1] = Block(kind=BlockKind.LIST, start=before.start, end=block.end, seams=seams)
        else:
            joined.append(block)
    return joined


def _plain_title(marked: str) -> str:
    if len(marked) > _LONGEST_MARKED_TITLE or not _MARKUP.search(marked):
        return one_line(marked)
    inline = _inline_parser().parseInline(marked)[0].children or []
    return one_line("".join(" " if token.type in _BREAKS else _visible(token) for token in inline))


def _visible(token: Token) -> str:
    return "" if token.type == "html_inline" else token.content
