"""What the fields of forms in OpenDocument files show."""

from collections.abc import Callable, Mapping
from xml.etree.ElementTree import Element

_XML_ID = "{http://www.w3.org/XML/1998/namespace}id"


def fill_controls(body: Element) -> None:
    """Write what the fields of a form show where they are drawn, but not passwords and hidden ones."""
    shown = {
        control.get("{form}id", control.get(_XML_ID, "")): _CONTROLS[control.tag](control)
        for forms in body.iter("{office}forms")
        for control in forms.iter()
        if control.tag in _CONTROLS
    }
    for drawn in body.iter("{draw}control") if shown else ():
        text = shown.get(drawn.get("{draw}control", ""), "")
        # One that is not in the line begins its paragraph, wherever it is drawn.
        in_line = drawn.get("{text}anchor-type") in ("as-char", "char")
        drawn.text = text if in_line or not text else f"{text} "
    for mark in body.iter("{field}fieldmark"):
        if mark.get("{field}type", "").endswith("FORMCHECKBOX"):
            values = (
                each.get("{field}value") for each in mark if each.get("{field}name", "").endswith("checkbox-result")
            )
            mark.text = "☒" if "true" in values else "☐"


def _typed(control: Element) -> str:
    typed = control.get("{form}current-value", control.get("{form}value", ""))
    return typed or " ".join("".join(line.itertext()) for line in control.iter("{text}p"))


def _ticked(control: Element) -> str:
    state = control.get("{form}current-state", control.get("{form}state", "unchecked"))
    chosen = control.get("{form}current-selected", control.get("{form}selected", "false"))
    sign = "☒" if state == "checked" or chosen == "true" else "☐"
    return f"{sign} {_labelled(control)}".rstrip()


def _selected(control: Element) -> str:
    """Return the entries of a list that are chosen, else those that are by default."""
    options = [each for each in control if each.tag in ("{form}option", "{form}item")]
    for name in ("{form}current-selected", "{form}selected"):
        if chosen := [_labelled(each) for each in options if each.get(name) == "true"]:
            return ", ".join(chosen)
    return ""


def _labelled(control: Element) -> str:
    return control.get("{form}label", "")


_CONTROLS: Mapping[str, Callable[[Element], str]] = {
    **dict.fromkeys(
        (f"{{form}}{kind}" for kind in ("text", "textarea", "formatted-text", "number", "date", "time", "combobox")),
        _typed,
    ),
    **dict.fromkeys(("{form}checkbox", "{form}radio"), _ticked),
    "{form}listbox": _selected,
    "{form}fixed-text": _labelled,
}
"""Fields of forms that show a text."""
