"""Text that others wrote, between marks."""


def enclose(text: str, *, mark: str) -> str:
    """Put text on lines of its own between `<quote MARK>` and `</quote MARK>`.

    The mark is removed from the text, so that nothing in it can end the quote: make it random, so that it is not in
    texts anyway, and nobody can write one that fits. Raises ValueError for an empty mark.
    """
    if not mark:
        raise ValueError("the mark is empty")
    while mark in text:
        text = text.replace(mark, "")
    return f"<quote {mark}>\n{text}\n</quote {mark}>"
