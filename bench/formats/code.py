"""Compare the parsed outline of Python files with Python's own syntax tree."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.formats.score import Score, parsed
from freki.schemas.outline import BlockKind

_PARTS = ("if", "orelse", "body", "finalbody", "handlers")


def score_python(folder: Path) -> Score:
    """Parse the files of a folder without installed packages; headings are top-level definitions."""
    total = Score()
    for path in sorted(folder.rglob("*.py")):
        if "site-packages" in path.parts or "dist-packages" in path.parts:
            continue
        content = path.read_bytes()
        try:
            true = Counter(_defined(ast.parse(content)))
        except (SyntaxError, ValueError):
            continue
        if document := parsed(path.name, content, total):
            tops = (block for block in document.blocks if block.kind is BlockKind.HEADING and block.heading_level == 1)
            found = Counter(block.title for block in tops)
            total.headings += true.total()
            total.headings_found += (true & found).total()
    return total


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names of top-level functions and classes."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            waiting += [child for part in _PARTS for child in getattr(node, part, ())]
