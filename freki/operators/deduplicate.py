"""The same text is worth reading once."""

from collections.abc import Sequence


def deduplicate(texts: Sequence[str]) -> list[int]:
    """Give the places of the texts that stay, in order: of equal texts the first.

    Texts are equal where they differ in case and white space only; what is merely similar stays.
    """
    seen: dict[str, int] = {}
    for place, text in enumerate(texts):
        seen.setdefault(" ".join(text.casefold().split()), place)
    return list(seen.values())
