"""Known content of documents, before conversion to files."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from freki.infra.sources.recorded import read_stream


class Kind(StrEnum):
    """Kind of an item."""

    HEADING = "heading"
    PROSE = "prose"
    ITEM = "item"
    CODE = "code"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Item:
    """Heading, paragraph, list item, code block or table."""

    kind: Kind
    text: str = ""
    level: int = 0
    """Level of a heading or list item; 1 is outermost."""
    rows: tuple[tuple[str, ...], ...] = ()

    @property
    def words(self) -> str:
        """Text of the item."""
        return self.text or " ".join(cell for row in self.rows for cell in row)


@dataclass(frozen=True, slots=True)
class Truth:
    """Document and its items."""

    name: str
    source: str
    """Markdown source."""
    items: tuple[Item, ...]


def documents(paths: Iterable[Path], *, most: int, shortest: int, longest: int) -> list[Truth]:
    """Read Markdown files, and up to `most` documents of suitable size per recorded stream, with tables first."""
    found: list[Truth] = []
    for path in paths:
        if path.suffix == ".md":
            source = path.read_text(encoding="utf-8")
            found.append(Truth(path.stem, source, tuple(items(source))))
        else:
            found += list(_streamed(path, most, range(shortest, longest)))
    return found


def _streamed(path: Path, most: int, sizes: range) -> Iterator[Truth]:
    latest = {record.document_id: record.content or "" for record in read_stream(path)}
    fitting = [(name, text) for name, text in latest.items() if name.endswith(".md") and len(text) in sizes]
    fitting.sort(key=lambda pair: ("\n|" not in pair[1], pair[0]))
    for name, text in fitting[:most]:
        yield Truth(name.rpartition(".")[0].replace("/", "-").replace(".", "-"), text, tuple(items(text)))


def items(source: str) -> Iterator[Item]:  # noqa: C901 - a case for each kind of token
    """Yield the items of a Markdown document."""
    depth, heading = 0, 0
    table: list[list[str]] | None = None
    for token in MarkdownIt("commonmark").enable("table").parse(_FRONT_MATTER.sub("", source)):
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                depth += 1
            case "bullet_list_close" | "ordered_list_close":
                depth -= 1
            case "heading_open":
                heading = int(token.tag[1])
            case "table_open":
                table = []
            case "tr_open" if table is not None:
                table.append([])
            case "table_close" if table is not None:
                yield Item(Kind.TABLE, rows=tuple(map(tuple, table)))
                table = None
            case "fence" | "code_block":
                yield Item(Kind.CODE, token.content.rstrip())
            case "inline" if table is not None:
                table[-1].append(_plain(token))
            case "inline" if text := _plain(token):
                kind = Kind.HEADING if heading else Kind.ITEM if depth else Kind.PROSE
                yield Item(kind, text, heading or depth)
                heading = 0


def _plain(token: Token) -> str:
    texts = (" " if "break" in child.type else child.content for child in token.children or () if child.type in _SHOWN)
    return " ".join("".join(texts).split())


_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_SHOWN = {"text", "code_inline", "softbreak", "hardbreak"}
