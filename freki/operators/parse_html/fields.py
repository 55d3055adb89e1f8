"""What the fields of a form show."""

from selectolax.lexbor import LexborNode

SIGNS = frozenset("☐☒")
_TICKED = {"checkbox", "radio"}
_UNREAD = {"hidden", "password", "search", "submit", "reset", "button", "image", "file", "range", "color"}


def shown(field: LexborNode) -> str:
    """Return the sign for a box by its state, or the text in a field; empty for buttons, passwords and searches."""
    attributes = field.attributes
    kind = (attributes.get("type") or "").strip().lower()
    if kind in _TICKED:
        return "☒" if "checked" in attributes else "☐"
    return "" if kind in _UNREAD else attributes.get("value") or ""
