"""Texts that an export is checked by: German and English, of several lengths, one longer than the model reads."""

from itertools import cycle, islice

QUERIES = (
    "Wie hoch ist die Zugspitze?",
    "How do I rotate the signing key of an access token?",
    "§ 573c BGB",
    "?",
)
PASSAGES = (
    "Die Zugspitze ist mit 2962 Metern der höchste Berg Deutschlands.",
    "Signing keys are replaced every ninety days: publish the new key and revoke the old one a week later.",
    (
        "Der Vermieter muss die Mietsache in einem zum vertragsgemäßen Gebrauch geeigneten Zustand überlassen und sie "
        "während der Mietzeit in diesem Zustand erhalten. Er hat die auf der Mietsache ruhenden Lasten zu tragen."
    ),
    "def close(self) -> None:\n    self._pool.drain()\n    self._connection.close()",
    "東京の人口 – 14 Mio.; Größe: 2.194 km² 😀",
    "ja",
    "",
)


def long_text(words: int) -> str:
    """Return a text of so many words, and at least as many tokens."""
    known = cycle(word for passage in PASSAGES for word in passage.split())
    return " ".join(islice(known, words))


def passages_beyond(window: int) -> tuple[str, ...]:
    """Return passages up to and beyond a window of so many tokens."""
    return (*PASSAGES, long_text(max(1, window // 4)), long_text(window + 1))


def pairs_beyond(window: int) -> list[tuple[str, str]]:
    """Return (query, text) pairs up to and beyond a window of so many tokens."""
    return [(QUERIES[number % len(QUERIES)], text) for number, text in enumerate(passages_beyond(window))]
