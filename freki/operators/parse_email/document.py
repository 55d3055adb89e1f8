"""The readable text and outline of a mail."""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from email import message_from_bytes
from email.message import Message
from email.policy import Compat32
from email.utils import collapse_rfc2231_value
from types import MappingProxyType

from freki.operators.errors import UnreadableContent
from freki.operators.parse_email.armour import without_armour
from freki.operators.parse_email.content import content_of, without_commands
from freki.operators.parse_email.words import decoded
from freki.schemas.charsets import text_codec
from freki.schemas.outline import (
    ATTACHMENTS,
    Block,
    BlockKind,
    ParsedDocument,
    as_attributes,
    concatenated,
    listed,
    one_line,
    visible,
)

Parse = Callable[[str], ParsedDocument]

_SHOWN = ("From", "To", "Cc", "Date")
_HTML, _PLAIN, _MARKDOWN, _ENRICHED = "text/html", "text/plain", "text/markdown", "text/enriched"
_USUAL = {_HTML, _PLAIN}
_NO_TEXT = {"css", "javascript", "rtf", "rfc822-headers", "x-amp-html", "watch-html"}
"""Kinds of text that are none for readers, or say once more what another part says."""
_FORWARDED = "message/rfc822"
_SEALED = {"application/pkcs7-mime", "application/x-pkcs7-mime", "multipart/encrypted"}
"""Whole mails that are encrypted, or signed with their text inside the signature: S/MIME and OpenPGP."""
_MAX_PARAMETERS = 4_096
"""Maximum characters of a Content-Type and the like: the time for parameters grows with the square of their length."""

_BOUNDARY = re.compile(r';\s*boundary="?[^";\s]{1,70}"?', re.IGNORECASE)


class _Bounded(Compat32):
    """Cuts headers with parameters, which the standard library takes apart while it parses a mail."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        if len(value) <= _MAX_PARAMETERS or not name.lower().startswith("content-"):
            return name, value
        # Without its boundary a mail of several parts would be read as one, with all that stands between them.
        boundary, (kind, _, others) = _BOUNDARY.search(value), value.partition(";")
        return name, f"{kind}{boundary[0] if boundary else ''};{others[:_MAX_PARAMETERS]}"


def parse_email(content: bytes | str, *, html: Parse, text: Parse, markdown: Parse) -> ParsedDocument:
    """Return the body of a mail, below its subject and the lines From, To, Cc and Date.

    Of alternative parts, the last one with text is read, HTML and plain text before other kinds of text, of related
    ones the one that they state as start, or the first; `html` parses HTML parts, `markdown` those in Markdown, `text`
    all others. Consecutive bodies are all read, attachments and forwarded mails are not: their names, or subjects,
    become an attribute. The subject is the title and a heading of level 1. Raises UnreadableContent for a mail that is
    encrypted or cannot be parsed.
    """
    try:
        raw = content if isinstance(content, bytes) else content.encode()
        mail = message_from_bytes(raw.removeprefix(BOM_UTF8), policy=_Bounded())
        if mail.get_content_type() in _SEALED:
            raise UnreadableContent("encrypted, or signed such that only mail programs can read it: save it without")
        bodies = _bodies(mail, {_HTML: html, _PLAIN: _unsealed(text), _MARKDOWN: markdown, _ENRICHED: _plain(text)})
        attached = listed(list(_attachments(mail)))
        head = {name: _header(mail, name) for name in _SHOWN}
        subject = _header(mail, "Subject")
    except RecursionError as error:
        raise UnreadableContent("nested too deep: save it again flattened") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # The parser of the standard library raises on some input.
        raise UnreadableContent("no mail that can be taken apart: save it again as EML") from error
    joined = concatenated([_headed(subject, head), *bodies])
    lang = next((body.attributes["lang"] for body in bodies if "lang" in body.attributes), "")
    attributes = as_attributes([*head.items(), (ATTACHMENTS, attached), ("lang", lang)])
    return replace(joined, title=subject or None, attributes=attributes)


def _bodies(part: Message, parsers: Mapping[str, Parse]) -> list[ParsedDocument]:
    """Return the displayed documents of a part."""
    kind, inner = part.get_content_type(), _parts(part)
    if kind == "multipart/alternative":
        last_first = inner[::-1]
        readable = (_bodies(one, parsers) for one in sorted(last_first, key=_is_usual, reverse=True))
        return next((bodies for bodies in readable if any(body.text for body in bodies)), [])
    if inner and part.get_content_maintype() == "multipart":
        seen = [_root(part, inner)] if kind == "multipart/related" else inner
        return [body for one in seen for body in _bodies(one, parsers)]
    parse = _parser(part, parsers)
    return [parse(content_of(part))] if parse and not inner and not _is_attached(part) else []


def _is_usual(part: Message) -> bool:
    """Return whether a part is what mail programs show, and no other kind of text, such as a calendar."""
    return part.get_content_maintype() != "text" or part.get_content_type() in _USUAL


def _parser(part: Message, parsers: Mapping[str, Parse]) -> Parse | None:
    kind = part.get_content_type()
    # A multipart without its boundary is plain text, and so is a kind of text that is not known.
    is_plain = part.get_content_maintype() == "multipart" or (
        part.get_content_maintype() == "text" and part.get_content_subtype() not in _NO_TEXT
    )
    return parsers.get(kind, parsers[_PLAIN] if is_plain else None)


def _unsealed(parse: Parse) -> Parse:
    return lambda source: parse(without_armour(source))


def _plain(parse: Parse) -> Parse:
    return lambda enriched: parse(without_commands(enriched))


def _root(related: Message, inner: Sequence[Message]) -> Message:
    """Return the part that related parts state as start; the first one without."""
    start = _bare_id(related.get_param("start", ""))
    return next((one for one in inner if start and _bare_id(one.get("Content-ID", "")) == start), inner[0])


def _bare_id(content_id: object) -> str:
    return str(content_id).strip(" <>")


def _parts(part: Message) -> list[Message]:
    if not part.is_multipart():
        return []  # `get_payload` would decode the content, and raise for a charset such as `undefined`
    return [inner for inner in part.get_payload() if isinstance(inner, Message)]


def _is_attached(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or _filename(part) is not None


def _filename(part: Message) -> str | None:
    """Return the name that a part states for its file, undecoded where its charset is none of text."""
    given = part.get_param("filename", None, "content-disposition")
    given = part.get_param("name", None) if given is None else given
    if isinstance(given, tuple):
        charset, _, raw = given
        try:
            # The standard library takes any codec of Python, and what it makes of `punycode` depends on its version.
            text_codec(charset or "us-ascii")
        except LookupError:
            return raw
    return None if given is None else collapse_rfc2231_value(given).strip()


def _attachments(mail: Message) -> Iterator[str]:
    """Yield the names of attachments in order: of those without one the subject of a mail, or the media type."""
    for part in mail.walk():
        name = _filename(part)
        if name:
            yield one_line(decoded(name))
        elif part is not mail and part.get_content_type() == _FORWARDED:
            yield next((subject for inner in _parts(part) if (subject := _header(inner, "Subject"))), _FORWARDED)
        elif part is not mail and _is_file(part):
            yield part.get_content_type()


def _is_file(part: Message) -> bool:
    """Return whether a part without a name is a file, and no text, signature or picture within the text."""
    is_signature = part.get_content_subtype().endswith("-signature")
    is_application = part.get_content_maintype() == "application" and not is_signature
    return not part.is_multipart() and (is_application or part.get_content_disposition() == "attachment")


def _header(mail: Message, name: str) -> str:
    """Return the text of a header; raw bytes are decoded as UTF-8."""
    values = [value for key, value in mail.raw_items() if key.lower() == name.lower()]
    return one_line(visible(decoded(str(values[0])))) if values else ""


def _headed(subject: str, head: Mapping[str, str]) -> ParsedDocument:
    """Return the document of subject and header lines."""
    lines = "\n".join(f"{name}: {value}" for name, value in head.items() if value)
    blocks = []
    if subject:
        blocks.append(Block(kind=BlockKind.HEADING, start=0, end=len(subject), heading_level=1, title=subject))
    start = len(subject) + 2 if subject else 0
    if lines:
        blocks.append(Block(kind=BlockKind.PROSE, start=start, end=start + len(lines)))
    text = "\n\n".join(part for part in (subject, lines) if part)
    return ParsedDocument(text=text, blocks=tuple(blocks), title=None, attributes=MappingProxyType({}))
