"""Composes recognising, parsing, language detection and chunking into one step."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from freki.operators.chunk import ChunkLimits, chunk_document, chunker_fingerprint
from freki.operators.detect_language import UNDETERMINED, detect_language
from freki.operators.errors import UnreadableContent
from freki.operators.identify import chunk_id
from freki.operators.parse_code import parse_code
from freki.operators.parse_html import parse_html
from freki.operators.parse_markdown import parse_markdown
from freki.operators.parse_rst import parse_rst
from freki.operators.parse_text import parse_text
from freki.operators.recognise import Profile, recognise
from freki.schemas import Chunk, DocumentChange
from freki.schemas.names import record
from freki.schemas.outline import ParsedDocument

CountTokens = Callable[[Sequence[str]], Sequence[int]]

_PARSERS: Mapping[Profile, Callable[[str], ParsedDocument]] = {
    Profile.MARKDOWN: parse_markdown,
    Profile.RST: parse_rst,
    Profile.HTML: parse_html,
    Profile.TEXT: parse_text,
    Profile.CODE: parse_code,
}


@record
class Outline:
    """What parsing and chunking make of a content."""

    name: str
    media_type: str
    language: str
    attributes: Mapping[str, str]
    characters: int
    chunker: str
    """Fingerprint of how the chunks were made."""
    chunks: tuple[Chunk, ...]


class Outliner:
    """Parses and chunks: pure, but it may take seconds."""

    def __init__(
        self, limits: Mapping[Profile, ChunkLimits], *, max_characters: int, count_tokens: CountTokens
    ) -> None:
        self._limits = limits
        self._max_characters = max_characters
        self._count_tokens = count_tokens

    def __call__(self, change: DocumentChange, content: str | bytes) -> Outline:
        """Outline a document. Raises UnreadableContent for what is too long, or not what it claims to be."""
        last_part = change.document_id.rpartition("/")[2]
        file_name = change.name or last_part
        # A name for people, such as "Handbook", says nothing about the format; the id may.
        found = recognise(file_name if "." in file_name else last_part, change.media_type, content)
        if len(found.text) > self._max_characters:
            raise UnreadableContent(
                f"{file_name}: {len(found.text)} characters are more than {self._max_characters}; split the document, "
                "or raise FREKI_CHUNKING__MAX_CHARACTERS"
            )
        document = _PARSERS[found.profile](found.text)
        limits = self._limits[found.profile]
        chunks = chunk_document(
            document,
            identify=partial(chunk_id, change.tenant, change.document_id),
            count_tokens=self._count_tokens,
            limits=limits,
        )
        language = change.language or detect_language(document.text)
        stated = document.attributes.get("lang", "")[:2].lower()
        return Outline(
            name=change.name or document.title or file_name,
            media_type=found.media_type,
            language=stated if language == UNDETERMINED and stated.isalpha() else language,
            # What the producer says wins over what the document states.
            attributes={**document.attributes, **change.attributes},
            characters=len(document.text),
            chunker=chunker_fingerprint(found.profile, limits),
            chunks=tuple(chunks),
        )
