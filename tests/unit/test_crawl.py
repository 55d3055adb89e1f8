"""What a crawler reads: addresses, pages, robots.txt, sitemaps."""

import gzip
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.crawl import Robots, decode_page, normalise_url, read_links, read_sitemap, robots_rules
from freki.operators.errors import UnreadableContent

HERE = "https://example.org/a/b.html"
NO_TEXT = ("undefined", "idna", "rot13", "base64", "zip", "unicode_escape", "punycode")
"""Codecs of Python that are no encodings of text; some of them raise whatever they decode."""


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("HTTPS://Example.ORG:443", "https://example.org/"),
        ("http://example.org:8080/x", "http://example.org:8080/x"),
        ("c.html#part", "https://example.org/a/c.html"),
        ("/x/../y/./z/", "https://example.org/y/z/"),
        ("//other.example/x", "https://other.example/x"),
        ("?q=1&r=ä b", "https://example.org/a/b.html?q=1&r=%C3%A4%20b"),
        ("%7euser/%e4", "https://example.org/a/~user/%E4"),
        ("100%", "https://example.org/a/100%25"),
        ("https://müller.example/Straße", "https://xn--mller-kva.example/Stra%C3%9Fe"),
        ("http://[2001:DB8::1]/x", "http://[2001:db8::1]/x"),
        (" \n spaced.html ", "https://example.org/a/spaced.html"),
    ],
)
def test_an_address_has_one_spelling(url: str, normal: str) -> None:
    assert normalise_url(url, base=HERE) == normal


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "mailto:a@example.org",
        "data:text/html,x",
        "https://user:pass@example.org/",
        "https://exam ple.org/",
        "https://[::1/",
        "http://example.org:99999/",
        "https://example.org/" + "x" * 2000,
    ],
)
def test_what_is_no_plain_address_of_the_web_is_none(url: str) -> None:
    assert normalise_url(url, base=HERE) is None


@given(st.text(max_size=40) | st.from_regex(r"https?://[a-z.]{1,9}(:\d{1,4})?/[^#]{0,20}", fullmatch=True))
def test_a_normal_address_stays_as_it_is(url: str) -> None:
    normal = normalise_url(url, base=HERE)

    assert normal is None or normalise_url(normal) == normal


def test_a_page_tells_where_it_leads() -> None:
    page = read_links(
        """<base href="/docs/"><link rel="canonical" href="/docs/main">
        <a href="one">1</a> <a href="two" rel="nofollow">2</a> <a href="one#again">1</a> <a href="mailto:x@y.z">m</a>
        <map><area href="https://other.example/"></map>""",
        url=HERE,
    )

    assert page.links == ("https://example.org/docs/one", "https://other.example/")
    assert (page.canonical, page.is_indexed) == ("https://example.org/docs/main", True)


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0; url=/de/", "https://example.org/de/"),
        ("5;URL='start.html'", "https://example.org/docs/start.html"),
        ("0,/de/", "https://example.org/de/"),
        ("300", None),
        ("0; url=javascript:alert(1)", None),
    ],
)
def test_a_page_may_lead_on_by_itself(content: str, target: str | None) -> None:
    page = read_links(f'<meta http-equiv="REFRESH" content="{content}">', url="https://example.org/docs/")

    assert page.refresh == target
    assert page.links == (() if target is None else (target,))


@pytest.mark.parametrize(
    ("rules", "links", "is_indexed"), [("noindex", 1, False), ("index, NoFollow", 0, True), ("none", 0, False)]
)
def test_a_page_may_ask_not_to_be_indexed_or_followed(rules: str, links: int, *, is_indexed: bool) -> None:
    page = read_links(f'<meta name="ROBOTS" content="{rules}"><a href="x">x</a>', url=HERE)

    assert (len(page.links), page.is_indexed) == (links, is_indexed)


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        ("Größe".encode(), "text/html"),
        ("Größe".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        (b'<meta charset="windows-1252">' + "Größe".encode("cp1252"), "text/html"),
        ("Größe".encode("utf-8-sig"), "text/html; charset=latin-1"),
        ("Größe".encode("utf-16"), "text/html"),
        ("Größe".encode(), "text/html; charset=no-such-thing"),
        ("Größe".encode(), "text/html; charset=base64"),
        ("Größe".encode(), "text/html; charset=utf-32"),
        (b'<meta charset="windows-1252">' + "Größe".encode("cp1252"), "text/html; charset=no-such-thing"),
        ('<script charset="windows-1252" src="/a.js"></script>Größe'.encode(), "text/html"),
        ('<!-- <meta charset="windows-1252"> --><meta charset="utf-8">Größe'.encode(), "text/html"),
        (b'<?xml version="1.0" encoding="ISO-8859-1"?><p>' + "Größe".encode("latin-1"), "application/xhtml+xml"),
    ],
)
def test_a_page_is_decoded_as_a_browser_does(content: bytes, content_type: str) -> None:
    assert decode_page(content, content_type).endswith("Größe")


@pytest.mark.parametrize("label", NO_TEXT)
def test_a_page_in_an_encoding_that_is_none_of_text_is_read_as_utf_8(label: str) -> None:
    assert decode_page("Größe".encode(), f"text/html; charset={label}") == "Größe"
    assert decode_page(f'<meta charset="{label}">Größe'.encode(), "text/html").endswith("Größe")


# Python warns that `unicode_escape` is no encoding for the bytes that the XML parser asks it about.
@pytest.mark.filterwarnings("ignore:.*invalid escape sequence")
@pytest.mark.parametrize("label", NO_TEXT)
def test_a_sitemap_in_an_encoding_that_is_none_of_text_is_read_or_refused(label: str) -> None:
    content = f"<?xml version='1.0' encoding='{label}'?><urlset><url><loc>{HERE}</loc></url></urlset>".encode()
    with suppress(UnreadableContent):
        assert read_sitemap(content, url=HERE).pages == (HERE,)


def test_robots_may_forbid_ask_for_patience_and_name_sitemaps() -> None:
    robots = Robots(
        b"User-agent: *\nDisallow: /\n\nUser-agent: freki\nAllow: /open/\nDisallow: /*.pdf$\nDisallow: /secret\n"
        b"Crawl-delay: 7\nSitemap: https://example.org/map.xml\nSitemap: no address\n",
        "freki",
    )

    assert [robots.allows(f"https://example.org{path}") for path in ("/open/", "/a.pdf", "/secret/x", "/other")] == [
        True,
        False,
        False,
        True,
    ]
    assert (robots.delay_s, robots.sitemaps) == (7, ["https://example.org/map.xml"])


@pytest.mark.parametrize(
    ("header", "rules"),
    [
        ("NoIndex, nofollow", {"noindex", "nofollow"}),
        ("Freki: noindex, nofollow", {"noindex", "nofollow"}),
        ("freki : noindex", {"noindex"}),
        ("otherbot: noindex, nofollow", set()),
        ("otherbot: noarchive, noindex, freki: nofollow", {"nofollow"}),
        ("nofollow, otherbot: noindex", {"nofollow"}),
        ("otherbot: none\nnofollow", {"nofollow"}),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST, noindex", {"noindex"}),
        ("max-snippet: 10, noindex", {"noindex"}),
        ("", set()),
    ],
)
def test_rules_of_a_header_are_for_all_or_for_whom_they_name(header: str, rules: set[str]) -> None:
    known = {"noindex", "nofollow", "none"}

    assert robots_rules(header, "freki") & known == rules & known


def test_robots_with_a_byte_order_mark_forbid_too() -> None:
    robots = Robots(b"\xef\xbb\xbfUser-agent: *\nDisallow: /secret/\n", "freki")

    assert not robots.allows("https://example.org/secret/x")


def test_no_rules_allow_all() -> None:
    robots = Robots(b"\xff<html>not found", "freki")

    assert robots.allows("https://example.org/x")
    assert robots.delay_s == 0


SITEMAP = """<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc> https://example.org/a </loc><lastmod>2026-01-01</lastmod></url><url><loc><![CDATA[/b?x=1&y=2]]></loc></url>
</urlset>"""


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_sitemap_names_pages(pack) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    sitemap = read_sitemap(pack(SITEMAP.encode()), url="https://example.org/sitemap.xml")

    assert sitemap.pages == ("https://example.org/a", "https://example.org/b?x=1&y=2")


def test_an_index_names_sitemaps() -> None:
    index = b"<sitemapindex><sitemap><loc>https://example.org/1.xml</loc></sitemap></sitemapindex>"

    assert read_sitemap(index, url=HERE).sitemaps == ("https://example.org/1.xml",)


@pytest.mark.parametrize(
    "content",
    [
        b"<html><p>Not found",
        b"",
        b"\x1f\x8bdamaged",
        b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>',
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "a">]><urlset/>'.encode("utf-16"),
    ],
)
def test_what_is_no_sitemap_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableContent):
        read_sitemap(content, url=HERE)


def test_links_beside_a_long_menu_are_read() -> None:
    # What is quadratic would run into the suite's timeout.
    found = read_links(f"<select>{'<option>' * 600_000}</select><a href=b>b</a>", url="https://a.example/a")

    assert found.links == ("https://a.example/b",)
