"""Definitions in SQL, whatever its dialect.

A grammar covers one dialect: that for tree-sitter fails on a third of 164 scripts of PostgreSQL.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from freki.operators.parse_code.lines import CodeStructure, SourceLines, Symbol

_QUOTED = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'?|(?P<tag>\$\w{0,60}\$).*?(?:(?P=tag)|\Z)|\"[^\"\n]*\"?|`[^`\n]*`?",
    re.DOTALL,
)
_STATEMENT = re.compile(
    r"^(?:CREATE|ALTER|DROP|INSERT|SELECT|UPDATE|DELETE|MERGE|REPLACE|TRUNCATE|WITH|GRANT|REVOKE|COMMENT|SET|USE|EXEC|CALL|DO"
    r"|COPY|COMMIT|ROLLBACK|START|BEGIN|DELIMITER|DECLARE|LOCK|UNLOCK|ANALYZE|VACUUM|EXPLAIN|SHOW|IF|PRINT|GO)\b",
    re.IGNORECASE | re.MULTILINE,
)
_BETWEEN = re.compile(
    r"(?:;|^[ \t]*(?:GO|/|//|\$\$|DELIMITER\b[^\n]*|\\[^\n]*)[ \t]*|\A)\s*\Z", re.IGNORECASE | re.MULTILINE
)
"""End of a statement, before the next one."""
_END_LOOK_BACK = 200
_OPENING = re.compile(r"\b(?:BEGIN(?!\s+(?:TRAN|WORK|;))|CASE)\b", re.IGNORECASE)
_CLOSING = re.compile(r"\bEND\b(?!\s+(?:IF|LOOP|WHILE|REPEAT|FOR)\b)", re.IGNORECASE)
_DEFINED = re.compile(
    r"CREATE\s+(?:OR\s+(?:REPLACE|ALTER)\s+)?(?:(?!ON\b|FOR\b)[\w@=`%.]+\s+){0,4}?"
    r"(?:TABLE|VIEW|FUNCTION|PROCEDURE|PROC|TRIGGER|INDEX|TYPE|SCHEMA|SEQUENCE|PACKAGE(?:\s+BODY)?|DOMAIN|EVENT|OPERATOR"
    r"|AGGREGATE|EXTENSION|POLICY|ROLE|DATABASE)\s+(?:CONCURRENTLY\s+)?(?:IF\s+NOT\s+EXISTS\s+)?"
    r"([\w.$#\"`\[\]äöüÄÖÜß]{1,150})",
    re.IGNORECASE,
)


def by_statements(lines: SourceLines) -> CodeStructure:
    """Return the objects created by statements at the margin; seams are the starts of such statements.

    Strings, comments, dollar quotes and blocks between BEGIN and END are skipped.
    """
    text = lines.text
    masked = _QUOTED.sub(lambda found: re.sub(r"[^\n]", " " if found.group()[0] in "-/" else "x", found.group()), text)
    starts = list(_starts(masked))
    definitions = []
    seams = []
    floor = 0
    for start, end in pairwise([*starts, len(text)]):
        begin = lines.begin(start, floor)
        seams.append(begin)
        floor = start + len(masked[start:end].rstrip())
        if created := _DEFINED.match(text, start, end):
            definitions.append(Symbol(begin, floor, 1, created.group(1)))
    return CodeStructure(tuple(definitions), tuple(seams))


def _starts(masked: str) -> Iterator[int]:
    """Yield where statements begin."""
    open_blocks = 0
    at = 0
    for found in _STATEMENT.finditer(masked):
        start = found.start()
        open_blocks += len(_OPENING.findall(masked, at, start)) - len(_CLOSING.findall(masked, at, start))
        if open_blocks <= 0 and _BETWEEN.search(masked[max(0, start - _END_LOOK_BACK) : start]):
            yield start
            open_blocks = 0
        at = start
