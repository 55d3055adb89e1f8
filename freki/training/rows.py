"""Texts become rows of token ids, as the reranker reads them."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer

from freki.training.material import Document

Row = list[int]

_QUERY, _PASSAGE = "query: ", "passage: "
QUESTION_TOKENS, HEADING_TOKENS, TEXT_TOKENS = 50, 42, 170
"""Special tokens included."""


class Rows:
    """Makes rows of questions, headings and texts; what is too long is cut."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = tokenizer.num_special_tokens_to_add(is_pair=False)
        self.lead = 1 + len(tokenizer.encode(_QUERY.strip(), add_special_tokens=False))
        """What stands before the words of a question: `<s>` and the prefix."""

    def questions(self, texts: Sequence[str]) -> list[Row]:
        """Make rows of what is asked."""
        return self._rows((_QUERY + text for text in texts), QUESTION_TOKENS)

    def headings(self, titles: Sequence[str]) -> list[Row]:
        """Make rows of titles."""
        return self._rows((_PASSAGE + title for title in titles), HEADING_TOKENS)

    def texts(self, documents: Sequence[Document]) -> list[Row]:
        """Make rows of documents, whose title leads."""
        return self._rows((_PASSAGE + document.whole for document in documents), TEXT_TOKENS)

    def _rows(self, texts: Iterable[str], most: int) -> list[Row]:
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        for encoding in encodings:
            encoding.truncate(most - self._special)
        return [self._tokenizer.post_process(encoding).ids for encoding in encodings]
