"""Symbols in Word that are signs of a font and not characters."""

import re
from collections.abc import Mapping

_CODE = re.compile(r"[0-9A-Fa-f]{4,5}")
_PRIVATE = range(0xE000, 0xF900)
_LOCAL = 0xFF
"""Mask of the place in the font: Word writes it from F000 or from 0."""


def _row(first: int, signs: str) -> Mapping[int, str]:
    return dict(enumerate(signs, start=first))


_WINGDINGS: Mapping[int, str] = {
    **_row(0x6C, "●○■☐☐☐☐"),
    **_row(0x73, "◆◆◆❖◆☒"),
    **_row(0x9E, "·•▪○○○"),
    **_row(0xA7, "▪☐"),
    **_row(0xD7, "←→↑↓←→↑↓"),
    **_row(0xDF, "←→↑↓↖↗↙↘"),
    **_row(0xE7, "←→↑↓↖↗↙↘"),
    **_row(0xEF, "←→↑↓↔↕↖↗↙↘"),
    **_row(0xFB, "✗✓☒☑"),
}
_WINGDINGS_2: Mapping[int, str] = {
    **_row(0x4F, "✗✓☒☑☒☒"),
    **_row(0x95, "·•●●○"),
    **_row(0xA0, "▪■■☐☐"),
}
_WEBDINGS: Mapping[int, str] = {0x61: "✓", 0x63: "☐", 0x67: "■", 0x6E: "●"}
_SYMBOL: Mapping[int, str] = {
    **_row(0x41, "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"),
    **_row(0x61, "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"),
    **_row(0xA2, "′≤⁄∞"),
    **_row(0xAB, "↔←↑→↓°±″≥×∝∂•÷≠≡≈…"),
    **_row(0xDB, "⇔⇐⇑⇒⇓"),
    0xD6: "√",
    0xE5: "∑",
}
_FONTS = {"wingdings": _WINGDINGS, "wingdings 2": _WINGDINGS_2, "webdings": _WEBDINGS, "symbol": _SYMBOL}


def symbol(font: str, code: str) -> str:
    """Return the character for a sign of a font, by its hexadecimal digits; empty for one that is not known."""
    if not _CODE.fullmatch(code):
        return ""
    place = int(code, 16)
    signs = _FONTS.get(font.strip().lower())
    if signs is not None:
        return signs.get(place & _LOCAL, "") if place in _PRIVATE or place <= _LOCAL else ""
    return chr(place) if place not in _PRIVATE and chr(place).isprintable() else ""
