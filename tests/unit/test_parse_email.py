"""A mail becomes its subject, its head and its body."""

import quopri
from base64 import encodebytes
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.errors import UnreadableContent
from freki.operators.parse_email import parse_email
from freki.operators.parse_html import parse_html
from freki.operators.parse_markdown import parse_markdown
from freki.operators.parse_text import parse_text
from freki.schemas.outline import BlockKind, ParsedDocument
from tests.unit.outlines import assert_outline, headings, texts


def _parse(content: bytes | str) -> ParsedDocument:
    return parse_email(content, html=parse_html, text=parse_text, markdown=parse_markdown)


def _mail(plain: str | None = None, html: str | None = None, subject: str = "Prüfung der Miete") -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"] = subject
    mail["From"] = "Jürgen Groß <j@example.org>"
    mail["To"] = "a@example.org"
    mail["Date"] = "Mon, 05 Jan 2026 10:00:00 +0100"
    if plain is not None:
        mail.set_content(plain)
    if html is not None:
        mail.add_alternative(html, subtype="html")
    return mail


def test_subject_and_head_stand_above_the_body() -> None:
    document = _parse(_mail("Guten Tag,\n\nGrüße\n").as_bytes())

    assert document.title == "Prüfung der Miete"
    assert headings(document) == [(1, "Prüfung der Miete")]
    assert texts(document, BlockKind.PROSE) == [
        "From: Jürgen Groß <j@example.org>\nTo: a@example.org\nDate: Mon, 05 Jan 2026 10:00:00 +0100",
        "Guten Tag,",
        "Grüße",
    ]
    assert document.attributes["from"] == "Jürgen Groß <j@example.org>"


def test_the_page_is_read_where_a_mail_says_the_same_twice() -> None:
    document = _parse(_mail("schlicht", "<h2>Fristen</h2><table><tr><td>Amt<td>Zeit</table>").as_bytes())

    assert headings(document)[1:] == [(2, "Fristen")]
    assert texts(document, BlockKind.TABLE) == ["Amt | Zeit"]
    assert "schlicht" not in document.text


def test_the_plain_text_is_read_where_the_page_has_none() -> None:
    assert "schlicht" in _parse(_mail("schlicht", "<img src=x>").as_bytes()).text


def test_attachments_are_named_and_not_read() -> None:
    mail = _mail("Siehe Anhang.")
    mail.add_attachment("geheim", filename="Übersicht.txt")

    document = _parse(mail.as_bytes())

    assert document.attributes["attachments"] == "Übersicht.txt"
    assert "geheim" not in document.text


def _part(headers: str) -> bytes:
    return f"--b\nContent-Type: {headers}\n\nx\n".encode()


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ("application/pdf\nContent-Disposition: attachment", "application/pdf"),
        ("application/pdf", "application/pdf"),
        ("text/csv\nContent-Disposition: attachment", "text/csv"),
        ("image/png\nContent-Disposition: attachment", "image/png"),
        ("image/png\nContent-Disposition: inline", None),
        ("image/png\nContent-ID: <a>", None),
        ("application/pgp-signature", None),
        ("application/pkcs7-signature", None),
    ],
)
def test_files_without_a_name_are_named_by_their_kind(headers: str, named: str | None) -> None:
    content = b'Subject: x\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\nSiehe Anlage.\n' + _part(headers)

    document = _parse(content + b"--b--\n")

    assert document.attributes.get("attachments") == named
    assert document.text == "x\n\nSiehe Anlage."


def test_bodies_that_follow_each_other_are_all_read() -> None:
    content = (
        b'Subject: x\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\nerster\n--b\n'
        b"Content-Type: text/html\n\n<p>zweiter\n--b--\n"
    )

    assert texts(_parse(content), BlockKind.PROSE) == ["erster", "zweiter"]


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "cp1252"])
def test_charsets_and_encodings_are_undone(charset: str) -> None:
    mail = EmailMessage()
    mail.set_content("Größe ändern\n", charset=charset, cte="base64")

    assert _parse(mail.as_bytes()).text == "Größe ändern\n"


@pytest.mark.parametrize("encoding", ["8bit", "quoted-printable"])
@pytest.mark.parametrize("charset", ["iso-8859-1", "latin1", "windows-1252"])
def test_quotes_and_euro_signs_of_windows_are_read_whatever_its_charset_is_called(charset: str, encoding: str) -> None:
    text = "Preis: 50 € für „Komfort“"
    raw = text.encode("cp1252")
    body = quopri.encodestring(raw) if encoding == "quoted-printable" else raw
    title = f"=?{charset}?Q?=84Komfort=93?=".encode()
    head = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: {encoding}\n\n".encode()

    document = _parse(b"Subject: " + title + b"\n" + head + body)

    assert document.text.split("\n\n") == ["„Komfort“", text]


@pytest.mark.parametrize("encoding", [b"8bit\xe9", b"\xff", "8bit – übertragen".encode()])
def test_a_mail_whose_transfer_encoding_is_not_ascii_is_read(encoding: bytes) -> None:
    head = b"Subject: x\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: "

    assert _parse(head + encoding + b"\n\nK\xf6ln").text.endswith("Köln")


def test_utf_8_is_read_where_only_ascii_is_stated() -> None:
    head = b"Subject: x\nContent-Type: text/plain; charset=us-ascii\nContent-Transfer-Encoding: quoted-printable\n\n"

    assert _parse(head + b"K=C3=B6ln").text.endswith("Köln")


@pytest.mark.parametrize("label", ["undefined", "idna", "rot13", "base64", "zip", "unicode_escape", "punycode"])
def test_a_mail_whose_charsets_are_none_of_text_is_read(label: str) -> None:
    mail = (
        f"Subject: =?{label}?q?x?=\nContent-Type: multipart/mixed; boundary=b\n\n--b\n"
        f"Content-Type: text/plain; charset={label}\n\nKöln\n--b\n"
        f"Content-Disposition: attachment; filename*={label}''a%C3%A4.pdf\n\nx\n--b--\n"
    ).encode()

    document = _parse(mail)

    assert texts(document, BlockKind.PROSE) == ["Köln"]
    assert document.attributes["attachments"] in {"aä.pdf", "aÃ¤.pdf"}


_IMAGE = b"Content-Type: image/png\nContent-ID: <i>\n\nx\n"
_PAGE = b"Content-Type: text/html\nContent-ID: <r>\n\n<p>Inhalt\n"


@pytest.mark.parametrize(
    ("start", "parts"),
    [
        (b'; start="<r>"', [_IMAGE, _PAGE]),
        (b"; start=<r>", [_IMAGE, _PAGE]),
        (b"", [_PAGE, _IMAGE]),
        (b"; start=nein", [_PAGE, _IMAGE]),
    ],
)
def test_of_related_parts_the_one_that_is_the_start_is_read(start: bytes, parts: list[bytes]) -> None:
    related = b'Subject: x\nContent-Type: multipart/related; boundary="b"' + start + b"\n\n"

    document = _parse(related + b"".join(b"--b\n" + part for part in parts) + b"--b--\n")

    assert document.text.endswith("Inhalt")


@pytest.mark.parametrize(
    ("subject", "name"), [(b"Subject: =?utf-8?q?K=C3=BCndigung?=\n", "Kündigung"), (b"", "message/rfc822")]
)
def test_a_forwarded_mail_is_named_by_its_subject_and_not_read(subject: bytes, name: str) -> None:
    content = (
        b'Subject: x\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\nSiehe unten.\n--b\n'
        b"Content-Type: message/rfc822\n\n" + subject + b"From: a@example.org\n\ngeheim\n--b--\n"
    )

    document = _parse(content)

    assert document.attributes["attachments"] == name
    assert "geheim" not in document.text


def test_raw_bytes_are_utf_8_or_what_they_can_be() -> None:
    assert _parse("Subject: Grüße\n\nKöln".encode()).text == "Grüße\n\nKöln"
    assert _parse("Subject: x\n\nKöln".encode("cp1252")).text.endswith("Köln")


def test_a_mail_that_is_text_already_keeps_its_letters() -> None:
    content = "Subject: Grüße\nContent-Type: text/plain; charset=iso-8859-1\n\nKöln"

    assert _parse(content).text == "Grüße\n\nKöln"


def test_a_mail_whose_parts_are_not_parted_is_text() -> None:
    assert "Inhalt" in _parse(b"Subject: x\nContent-Type: multipart/mixed\n\nInhalt").text


def test_parameters_without_end_are_not_taken_apart() -> None:
    mail = b'Subject: Frist\nContent-Type: text/plain; a="' + b";" * 1_000_000 + b"\n\nBis Freitag.\n"

    assert texts(_parse(mail), BlockKind.PROSE) == ["Bis Freitag."]


def test_parts_are_read_apart_also_below_a_header_that_is_cut() -> None:
    kind = f'multipart/alternative; a="{"x" * 5_000}"; boundary="b"'
    mail = f"Subject: Frist\nContent-Type: {kind}\n\n--b\nContent-Type: text/plain\n\nBis Freitag.\n--b--\n"

    assert texts(_parse(mail), BlockKind.PROSE) == ["Bis Freitag."]


def test_parts_in_parts_without_end_are_refused() -> None:
    nested = "".join(f'Content-Type: multipart/mixed; boundary="b{depth}"\n\n--b{depth}\n' for depth in range(10_000))

    with pytest.raises(UnreadableContent, match="nested too deep"):
        _parse(f"Subject: tief\n{nested}")


heads = st.sampled_from(
    [
        *(
            "Subject: =?utf-8?q?a=FF?=",
            "Subject: =?x?b?a?=",
            "From: <@",
            "Content-Type: multipart/alternative; boundary=b",
        ),
        *(
            "Content-Type: text/html; charset=nein",
            "Content-Type: text/plain; name*0*=a; name*=b; name=c",
            "Content-Type: ;;=",
        ),
        *(
            "Content-Transfer-Encoding: base64",
            "Content-Transfer-Encoding: x-uuencode",
            "Content-Disposition: =?",
            "",
            "--b",
            "--b--",
        ),
        *("Content-Type: text/plain; charset=utf-16", "Content-Type: message/rfc822", "begin 644 a", "%%% <p>ä\x00"),
    ]
)


@given(lines=st.lists(st.one_of(heads, st.text(max_size=10)), max_size=20), end=st.sampled_from(["\n", "\r\n"]))
def test_any_mail_is_an_outline_or_refused(lines: list[str], end: str) -> None:
    try:
        document = _parse(end.join(lines).encode("utf-8", errors="replace"))
    except UnreadableContent:
        return
    assert_outline(document)


def test_a_mail_may_begin_with_a_byte_order_mark() -> None:
    assert _parse("\ufeffSubject: Grüße\n\nText").title == "Grüße"


@pytest.mark.parametrize(
    "kind",
    [
        'application/pkcs7-mime; smime-type=enveloped-data; name="smime.p7m"',
        'application/x-pkcs7-mime; smime-type=signed-data; name="smime.p7m"',
        'multipart/encrypted; protocol="application/pgp-encrypted"; boundary=b',
    ],
)
def test_a_mail_whose_text_only_mail_programs_can_read_is_refused_with_advice(kind: str) -> None:
    with pytest.raises(UnreadableContent, match="encrypted, or signed such that only mail programs can read it"):
        _parse(f"Subject: Vertrag\nContent-Type: {kind}\n\n--b\n\nMIIB\n--b--\n")


def test_an_attached_file_that_is_signed_leaves_the_mail_readable() -> None:
    mail = (
        "Subject: Vertrag\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nAnbei der Vertrag.\n"
        '--b\nContent-Type: application/pkcs7-mime; name="vertrag.pdf.p7m"\n\nMIIB\n--b--\n'
    )

    document = _parse(mail)

    assert "Anbei der Vertrag." in document.text
    assert document.attributes["attachments"] == "vertrag.pdf.p7m"


_PLAIN_HEAD = b"Subject: x\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
_FOOTER = "_______________________________________________\nListe mailing list\nListe@lists.example.org\n"


@pytest.mark.parametrize("blank", [b"", b"\n"])
@pytest.mark.parametrize("text", ["Größe der Fähre", "Größe der Fähre!", "Größe der Fähre." * 20])
def test_what_a_mailing_list_put_behind_an_encoded_body_is_read_as_it_stands(text: str, blank: bytes) -> None:
    body = encodebytes(text.encode())

    document = _parse(_PLAIN_HEAD + body + blank + _FOOTER.encode())

    assert document.text.split("\n\n")[1].split("\n")[0] == text
    assert " ".join(document.text.split()).endswith(" ".join(_FOOTER.split()))


@pytest.mark.parametrize("body", ["Größe der Fähre: 12 m", "Fähre"])
def test_a_body_that_is_not_encoded_although_its_header_says_so_is_read(body: str) -> None:
    assert _parse(_PLAIN_HEAD + body.encode()).text == f"x\n\n{body}"


@given(text=st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=200))
def test_every_encoded_body_is_read_whatever_its_line_ends(text: str) -> None:
    for end in (b"\n", b"\r\n"):
        body = encodebytes(text.encode()).replace(b"\n", end)
        assert _parse(_PLAIN_HEAD + body).text == "\n\n".join(["x", *([text] if text else [])])


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        ("text/markdown", "# Fristen\n\n| Amt | Zeit |\n|---|---|\n| Bau | 9 |", "Fristen"),
        ("text/enriched", "<bold>Fristen</bold> enden << am 1. Mai<nofill>.</nofill>", "Fristen enden < am 1. Mai."),
        ("text/enriched", "<color><param>red</param>Rot</color>", "Rot"),
        ("text/calendar", "BEGIN:VCALENDAR\nSUMMARY:Fristen", "SUMMARY:Fristen"),
        ("text/x-patch", "+Fristen", "+Fristen"),
    ],
)
def test_bodies_of_other_kinds_of_text_are_read(kind: str, body: str, shown: str) -> None:
    assert shown in _parse(f"Subject: x\nContent-Type: {kind}\n\n{body}\n").text


def test_headings_and_tables_of_a_body_in_markdown_are_found() -> None:
    mail = "Subject: x\nContent-Type: text/markdown\n\n## Fristen\n\n| Amt | Zeit |\n|---|---|\n| Bau | 9 |\n"

    document = _parse(mail)

    assert headings(document) == [(1, "x"), (2, "Fristen")]
    assert len(texts(document, BlockKind.TABLE)) == 1


@pytest.mark.parametrize("kind", ["text/calendar", "text/x-amp-html", "text/markdown", "text/x-unknown"])
def test_of_alternatives_a_page_or_plain_text_is_read_before_other_kinds_of_text(kind: str) -> None:
    content = (
        b"Subject: x\nContent-Type: multipart/alternative; boundary=b\n\n--b\n\nschlicht\n--b\n"
        b"Content-Type: text/html\n\n<p>Seite\n--b\nContent-Type: " + kind.encode() + b"\n\nanderes\n--b--\n"
    )

    assert texts(_parse(content), BlockKind.PROSE) == ["Seite"]


@pytest.mark.parametrize("kind", ["text/css", "text/rfc822-headers", "text/rtf"])
def test_text_that_is_none_for_readers_is_left_out(kind: str) -> None:
    head = "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nText\n"
    content = f"{head}--b\nContent-Type: {kind}\n\nanderes\n--b--\n"

    assert texts(_parse(content), BlockKind.PROSE) == ["Text"]


_SIGNED = """-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

Die Frist endet am Freitag.

- --
- - Erstens
-----BEGIN PGP SIGNATURE-----
Version: GnuPG v2

iQEzBAEBCAAdFiEEVW
=abcd
-----END PGP SIGNATURE-----
"""
_ENCRYPTED = "-----BEGIN PGP MESSAGE-----\nVersion: GnuPG v2\n\nhQEMA5vJ\n=abcd\n-----END PGP MESSAGE-----\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_of_a_signed_text_the_text_is_read(end: str) -> None:
    document = _parse(f"Subject: x\n\nVorab.\n\n{_SIGNED}\nDanach.\n".replace("\n", end))

    assert [" ".join(text.split()) for text in document.text.split("\n\n")] == [
        "x",
        "Vorab.",
        "Die Frist endet am Freitag.",
        "-- - Erstens",
        "Danach.",
    ]


@pytest.mark.parametrize("more", ["", _ENCRYPTED, "\n \n"])
def test_a_mail_whose_text_is_encrypted_in_place_is_refused_with_advice(more: str) -> None:
    with pytest.raises(UnreadableContent, match="encrypted"):
        _parse(f"Subject: x\n\n{_ENCRYPTED}{more}")


def test_beside_readable_text_an_encrypted_one_is_named_and_not_read() -> None:
    text = _parse(f"Subject: x\n\nHier der Schlüssel:\n\n{_ENCRYPTED}\nGrüße\n").text

    lines = [line for line in text.split("\n") if line]
    assert lines[1:] == ["Hier der Schlüssel:", "-----BEGIN PGP MESSAGE-----", "-----END PGP MESSAGE-----", "Grüße"]


@pytest.mark.parametrize(
    "text", ["-----BEGIN PGP MESSAGE-----\nohne Ende", "-----BEGIN PGP SIGNED MESSAGE-----\nohne Ende", "- Punkt"]
)
def test_armour_without_an_end_is_text(text: str) -> None:
    assert text.rpartition("\n")[2].strip("- ") in _parse(f"Subject: x\n\n{text}\n").text


def test_many_beginnings_of_armour_take_no_longer() -> None:
    text = "-----BEGIN PGP SIGNED MESSAGE-----\n-----BEGIN PGP MESSAGE-----\n" * 20_000

    assert _parse(f"Subject: x\n\n{text}").text


@pytest.mark.parametrize(
    ("field", "subject"),
    [
        ("=?utf-8?q?Pr=C3=BCfung?=\n der Miete", "Prüfung der Miete"),
        ("=?utf-8?q?=C3=9Cber?=\n die =?iso-8859-1?q?H=F6he?=\n der Miete", "Über die Höhe der Miete"),
        ("=?utf-8?q?Pr=C3?=\n =?utf-8?q?=BCfung_?=  =?iso-8859-1?q?f=FCr_?= =?utf-8?q?alle?=", "Prüfung für alle"),
        ("Prüfung =?utf-8?q?der?= Höhe", "Prüfung der Höhe"),
        ("=?utf-8?q?Fragen_ohne_Ende", "=?utf-8?q?Fragen_ohne_Ende"),
    ],
)
def test_words_of_a_subject_stay_apart_where_its_lines_end(field: str, subject: str) -> None:
    assert _parse(f"Subject: {field}\nFrom: a\n\nx".encode()).title == subject


@pytest.mark.parametrize("word", ["=?utf-8?q?a?= ", "=?utf-8?q?a", "\n ", "=?utf-8?b?YQ==?= x\n "])
def test_a_subject_of_many_words_is_read(word: str) -> None:
    # What is quadratic would run into the suite's timeout.
    assert _parse(f"Subject: a{word * 200_000}\n\nx".encode()).title


@pytest.mark.parametrize("command", ["<param>", "<param><a>", "<param>x</param", "<", "<<"])
def test_many_commands_of_enriched_text_are_read(command: str) -> None:
    content = f"Content-Type: text/enriched\n\n{command * 100_000}Ende"

    assert _parse(content).text.endswith("Ende")


def test_many_attachments_are_named_as_far_as_an_attribute_holds() -> None:
    mail = _mail("Guten Tag")
    for number in range(12):
        mail.add_attachment(b"x", maintype="application", subtype="pdf", filename=f"Anlage {number} zum Bescheid.pdf")
    long = _mail("Guten Tag")
    long.add_attachment(b"x", maintype="application", subtype="pdf", filename="a" * 300)

    named = _parse(mail.as_bytes()).attributes["attachments"]

    assert named.startswith("Anlage 0 zum Bescheid.pdf, Anlage 1")
    assert named.endswith(".pdf, ... (12 files)")
    assert len(named) <= 256
    assert _parse(long.as_bytes()).attributes["attachments"].startswith("aaa")
