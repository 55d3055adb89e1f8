"""Words of messages."""


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: `1 change`, `2 changes`; nouns: an irregular plural."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"
