"""Delimiters around untrusted text."""


def enclose(text: str, *, mark: str) -> str:
    """Return the text on lines of its own between `<quote MARK>` and `</quote MARK>`.

    The mark is removed from the text, so that nothing in it can end the quote. Use a random mark, which no author can
    predict. Raises ValueError for an empty mark.
    """
    if not mark:
        raise ValueError("the mark is empty")
    while mark in text:
        text = text.replace(mark, "")
    return f"<quote {mark}>\n{text}\n</quote {mark}>"
