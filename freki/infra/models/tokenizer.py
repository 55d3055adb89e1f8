"""Tokenizers: text in, tokens of a model's vocabulary out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeVar

from sentencepiece import SentencePieceProcessor
from tokenizers import Encoding, Tokenizer

from freki.infra.models.manifest import PIECES, TOKENIZER
from freki.schemas.errors import Misconfigured

T = TypeVar("T")

Span = tuple[int, int]
"""Half-open, in code points of a text."""

_PAD_TOKENS = ("<pad>", "[PAD]")
_SHORT = 4_000
"""Maximum characters of texts that are tokenised one by one, in 0.2 ms. A call with a list starts a thread and releases
the GIL, and its caller waits for both: in a busy process for up to 5 ms."""


class Tokens(Protocol):
    """Tokens of a text or pair, special ones included."""

    @property
    def ids(self) -> Sequence[int]:
        """Place of each token in the vocabulary."""
        ...

    @property
    def type_ids(self) -> Sequence[int]:
        """Of each token 1 in the second text of a pair, where the model tells them apart; else 0."""
        ...

    @property
    def offsets(self) -> Sequence[Span]:
        """Span of each token in its text, (0, 0) for special ones; of `encode_placed` only."""
        ...

    def __len__(self) -> int: ...


class TextTokenizer(Protocol):
    """Tokenizer of a model. Thread-safe; releases the GIL, but for a few short texts."""

    @property
    def pad(self) -> int:
        """Id of the token that fills short rows."""
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special ones and without a limit."""
        ...

    def encode(self, texts: Sequence[str], *, most: int) -> Sequence[Tokens]:
        """Tokenise texts, truncated to `most` tokens, special ones included."""
        ...

    def encode_placed(self, texts: Sequence[str], *, most: int) -> Sequence[Tokens]:
        """Tokenise like `encode`, with spans."""
        ...

    def encode_pairs(self, pairs: Sequence[tuple[str, str]], *, most: int) -> Sequence[Tokens]:
        """Tokenise (query, text) pairs, truncating the text; the query is truncated to half of the input."""
        ...


def open_text_tokenizer(directory: Path) -> TextTokenizer:
    """Open the tokenizer in the directory of a model: its SentencePiece model, which is faster and smaller, if any.

    Equal files share one instance. Raises Misconfigured, naming the file, where it is invalid.
    """
    pieces = directory / PIECES
    if pieces.is_file():
        return PieceTokenizer(_shared(_piece_models, pieces, _read_pieces))
    return open_tokenizer_file(directory / TOKENIZER)


def open_tokenizer_file(path: Path) -> "FileTokenizer":
    """Open a `tokenizer.json`. Raises Misconfigured, naming the file, where it is invalid."""
    return FileTokenizer(open_tokenizer(path))


def open_tokenizer(path: Path) -> Tokenizer:
    """Load a `tokenizer.json` without padding and truncation; equal files share one instance.

    Raises Misconfigured for an invalid file. A vocabulary of 250,000 pieces takes 290 MB.
    """
    return _shared(_tokenizers, path, _parsed)


_tokenizers: dict[bytes, Tokenizer] = {}
_piece_models: dict[bytes, SentencePieceProcessor] = {}
_opening = Lock()


def _shared(opened: dict[bytes, T], path: Path, read: Callable[[bytes, Path], T]) -> T:
    content = path.read_bytes()
    digest = sha256(content).digest()
    with _opening:
        if digest not in opened:
            opened[digest] = read(content, path)
        return opened[digest]


def _parsed(content: bytes, path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises nothing more precise
        raise Misconfigured(f"{path} is not a tokenizer: {error}") from error
    # Files from the hub may configure either; the caller decides both.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _read_pieces(content: bytes, path: Path) -> SentencePieceProcessor:
    try:
        return SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise Misconfigured(f"{path} is not a SentencePiece model: {error}") from error


class FileTokenizer:
    """A `tokenizer.json`, of any kind."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.pad = pad_id(tokenizer)

    def count(self, texts: Sequence[str]) -> list[int]:
        """See `TextTokenizer`."""
        return [len(encoding) for encoding in self._encode(texts)]

    def encode(self, texts: Sequence[str], *, most: int) -> list[Encoding]:
        """See `TextTokenizer`."""
        return self._prepared(self._encode(texts), most)

    def encode_placed(self, texts: Sequence[str], *, most: int) -> list[Encoding]:
        """See `TextTokenizer`."""
        return self._prepared(self._tokenizer.encode_batch(list(texts), add_special_tokens=False), most)

    def encode_pairs(self, pairs: Sequence[tuple[str, str]], *, most: int) -> list[Encoding]:
        """See `TextTokenizer`."""
        room = most - self._tokenizer.num_special_tokens_to_add(is_pair=True)
        queries = list(dict.fromkeys(query for query, _ in pairs))
        encoded = dict(zip(queries, self._encode(queries), strict=True))
        for encoding in encoded.values():
            encoding.truncate(room // 2)
        texts = self._encode([text for _, text in pairs])
        for (query, _), text in zip(pairs, texts, strict=True):
            text.truncate(room - len(encoded[query]))
        return [
            self._tokenizer.post_process(encoded[query], text) for (query, _), text in zip(pairs, texts, strict=True)
        ]

    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        return self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)

    def _prepared(self, encodings: list[Encoding], most: int) -> list[Encoding]:
        room = most - self._tokenizer.num_special_tokens_to_add(is_pair=False)
        for encoding in encodings:
            encoding.truncate(room)
        return [self._tokenizer.post_process(encoding) for encoding in encodings]


@dataclass(frozen=True, slots=True)
class PieceTokens:
    """Tokens of a SentencePiece model."""

    ids: Sequence[int]
    offsets: Sequence[Span] = ()

    @property
    def type_ids(self) -> Sequence[int]:
        """Zeros: XLM-RoBERTa does not tell the texts of a pair apart."""
        return [0] * len(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


class PieceTokenizer:
    """A SentencePiece model with the special tokens of XLM-RoBERTa: `<s> A </s>`, `<s> A </s> </s> B </s>`."""

    def __init__(self, pieces: SentencePieceProcessor) -> None:
        self._pieces = pieces
        self._begin, self._end = pieces.bos_id(), pieces.eos_id()
        self.pad: int = pieces.pad_id()

    def count(self, texts: Sequence[str]) -> list[int]:
        """See `TextTokenizer`."""
        return [len(ids) for ids in self._ids(texts)]

    def encode(self, texts: Sequence[str], *, most: int) -> list[PieceTokens]:
        """See `TextTokenizer`."""
        return [PieceTokens([self._begin, *ids[: most - 2], self._end]) for ids in self._ids(texts)]

    def encode_placed(self, texts: Sequence[str], *, most: int) -> list[PieceTokens]:
        """See `TextTokenizer`."""
        found = self._pieces.encode(list(texts), num_threads=1, return_type="offset_mapping")
        return [
            PieceTokens(
                [self._begin, *each["ids"][: most - 2], self._end],
                [(0, 0), *(_of_characters(text, span) for span in each["offsets"][: most - 2]), (0, 0)],
            )
            for text, each in zip(texts, found, strict=True)
        ]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]], *, most: int) -> list[PieceTokens]:
        """See `TextTokenizer`."""
        room = most - 4
        queries = list(dict.fromkeys(query for query, _ in pairs))
        encoded = {query: ids[: room // 2] for query, ids in zip(queries, self._ids(queries), strict=True)}
        texts = self._ids([text for _, text in pairs])
        return [
            PieceTokens([self._begin, *first, self._end, self._end, *second[: room - len(first)], self._end])
            for (query, _), second in zip(pairs, texts, strict=True)
            for first in [encoded[query]]
        ]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        if sum(map(len, texts)) <= _SHORT:
            return [self._pieces.encode(text) for text in texts]
        # Callers run side by side, so one thread is enough for each.
        found: list[list[int]] = self._pieces.encode(list(texts), num_threads=1)
        return found


def _of_characters(text: str, span: Span) -> Span:
    """Return a span without the blanks before a word; that of a piece without characters has the next one.

    SentencePiece counts blanks to the first piece of a word.
    """
    start, end = span
    start = end - len(text[start:end].lstrip())
    return start, max(start + 1, end)


def pad_id(tokenizer: Tokenizer) -> int:
    """Return the id of the padding token; 0 where there is none."""
    ids = (tokenizer.token_to_id(token) for token in _PAD_TOKENS)
    return next((token_id for token_id in ids if token_id is not None), 0)
