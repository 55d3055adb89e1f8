"""Text that OpenPGP signed or encrypted in place, between lines such as `-----BEGIN PGP MESSAGE-----`."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from freki.operators.errors import UnreadableContent

_BEGIN = re.compile(r"-----BEGIN PGP ([A-Z0-9 ,/]{1,60})-----\s*")
_SIGNED, _SIGNATURE = "SIGNED MESSAGE", "SIGNATURE"
_ENCRYPTED = re.compile(r"MESSAGE(, PART .*)?")
_ESCAPE = "- "
"""Before each line of a signed text that begins with a hyphen."""


def without_armour(text: str) -> str:
    """Return a text with what was signed as it was written, without signatures and without what only programs read.

    Of an encrypted message or a key, its first and last line stay: they say what is there. What has no end is text.
    Raises UnreadableContent if there is nothing but encrypted messages.
    """
    if "-----BEGIN PGP " not in text:
        return text
    lines = text.split("\n")
    runs = list(_runs(lines))
    encrypted = [bool(_ENCRYPTED.fullmatch(kind)) for kind, _ in runs]
    readable = any(line.strip() for sealed, (_, run) in zip(encrypted, runs, strict=True) if not sealed for line in run)
    if any(encrypted) and not readable:
        raise UnreadableContent("encrypted by OpenPGP: save it without")
    return "\n".join(line for _, run in runs for line in run)


def _runs(lines: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the readable lines in order, each run with the kind of its armour; empty for none."""
    last = {line.strip(): place for place, line in enumerate(lines) if line.startswith("-----END PGP ")}
    place = 0
    while place < len(lines):
        begin = _BEGIN.fullmatch(lines[place])
        kind = begin[1] if begin else ""
        end = f"-----END PGP {_SIGNATURE if kind == _SIGNED else kind}-----"
        run = lines[place : place + 1]
        if kind and last.get(end, -1) > place:
            run = lines[place : next(at for at in range(place, len(lines)) if lines[at].strip() == end) + 1]
        else:
            kind = ""
        yield kind, _READABLE.get(kind, _named)(run)
        place += len(run)


def _named(run: Sequence[str]) -> Sequence[str]:
    return [run[0], run[-1]] if len(run) > 1 else run


def _signed(lines: Sequence[str]) -> Sequence[str]:
    """Return the text that was signed: behind the blank line after its head, and before its signature."""
    head = next((place for place, line in enumerate(lines) if not line.strip()), 0)
    begin = f"-----BEGIN PGP {_SIGNATURE}-----"
    signature = next((place for place, line in enumerate(lines) if line.strip() == begin), len(lines))
    return [line.removeprefix(_ESCAPE) for line in lines[head + 1 : signature]]


_READABLE: Mapping[str, Callable[[Sequence[str]], Sequence[str]]] = {_SIGNED: _signed, _SIGNATURE: lambda _: []}
"""What stays of each kind of armour; of others their first and last line."""
