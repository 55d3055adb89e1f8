"""Formulas (MathML) as a line of text, in which a fraction or a power is no other number."""

from collections.abc import Mapping

from selectolax.lexbor import LexborNode

FORMULA = "math"
_ROOT, _ANY_ROOT, _FENCED = "msqrt", "mroot", "mfenced"
_OPERATORS: Mapping[str, tuple[str, ...]] = {
    "mfrac": ("", "/"),
    "msup": ("", "^"),
    "msub": ("", "_"),
    "msubsup": ("", "_", "^"),
    "munder": ("", "_"),
    "mover": ("", "^"),
    "munderover": ("", "_", "^"),
    _ANY_ROOT: ("", "^(1/"),
}
"""The signs before the operands of each formula."""
_ROWS = {"mrow", "mstyle", "mpadded", "mphantom", "menclose", "merror", "semantics", "maction"}
_BLANKS = {"mspace", "mtr", "mlabeledtr", "mtd"}
_TOKENS = {"mi", "mn", "mo", "ms", "mtext"}
PARTS = {
    *(*_OPERATORS, *_ROWS, *_BLANKS, *_TOKENS, _ROOT, _FENCED, "mtable"),
    *("mmultiscripts", "mprescripts", "none"),
}


def before(node: LexborNode) -> str:
    """Return what goes before a part of a formula: its operator, and a bracket before several signs: `(a+b)/2`."""
    if node.tag in _BLANKS:
        return " "
    root = "√" if node.tag == _ROOT else ""
    return f"{_sign(node)}{'(' * _is_operand_of_signs(node)}{root}{'(' * _is_enclosed(node)}"


def behind(node: LexborNode) -> str:
    """Return the brackets behind a part of a formula."""
    return ")" * (_is_operand_of_signs(node) + _is_enclosed(node) + ("(" in _sign(node)))


def _sign(node: LexborNode) -> str:
    tag = node.parent.tag if node.parent else ""
    if tag == _FENCED:
        return "," if _previous(node) else ""
    signs = _OPERATORS.get(tag or "", ())
    place, other = 0, _previous(node) if signs else None
    while other is not None and place < len(signs):
        place, other = place + 1, _previous(other)
    return signs[place] if place < len(signs) else ""


def _previous(node: LexborNode) -> LexborNode | None:
    """Return the element before this one."""
    other = node.prev
    while other is not None and not other.is_element_node:
        other = other.prev
    return other


def _is_operand_of_signs(node: LexborNode) -> bool:
    """Return whether a part is an operand, and has several signs."""
    if node.parent is None or node.parent.tag not in _OPERATORS or node.tag in (*_TOKENS, _FENCED):
        return False
    inner = _elements(node)
    while len(inner) == 1 and node.tag in _ROWS:
        node = inner[0]
        inner = _elements(node)
    return len(inner) > 1 or node.tag == _ROOT


def _is_enclosed(node: LexborNode) -> bool:
    return node.tag == _FENCED or (node.tag == _ROOT and len(_elements(node)) > 1)


def _elements(node: LexborNode) -> list[LexborNode]:
    """Return the first two elements in a part."""
    found: list[LexborNode] = []
    for child in node.iter():
        found.append(child)
        if len(found) > 1:
            break
    return found
