"""Whether so many documents would go at once that their source rather seems to be broken."""

MIN_DELETIONS = 10
"""Fewer deletions are never held back: they are soon undone, and small sources change as a whole."""


def is_mass_deletion(deletions: int, known: int) -> bool:
    """Return whether a run would delete most documents of a source, and no fewer than `MIN_DELETIONS`.

    known: number of documents that the source had before the run, with those to be deleted.
    """
    return deletions >= MIN_DELETIONS and 2 * deletions > known
