"""Headers and cookies of a crawl, each for the hosts that it belongs to."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from email.message import Message
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request

from freki.infra.sources.web.guard import DEFAULT_PORTS
from freki.schemas.errors import Misconfigured

Headers = Mapping[str, str]

_LINE = re.compile(
    r"(?:(?P<origin>https?://[^\s/]+)/?\s+)?(?P<name>[!#$%&'*+.^_`|~\w-]+):\s*(?P<value>[!-~][ -~]*)", re.ASCII
)
_OTHERWISE = {"cookie": "--cookies FILE sends cookies", "user-agent": "FREKI_CRAWL__USER_AGENT sets it"}
_REFUSED = frozenset(
    {
        *(
            "accept-encoding",
            "connection",
            "content-length",
            "host",
            "if-modified-since",
            "if-none-match",
            "keep-alive",
        ),
        *("proxy-authorization", "proxy-connection", "range", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
_FIELDS = 7
_HTTP_ONLY = "HttpOnly"
_HIDDEN = f"#{_HTTP_ONLY}_"


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL, without the default port."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{place.removesuffix(f':{DEFAULT_PORTS.get(parts.scheme)}')}"


def read_headers(lines: Iterable[str], *, origins: Collection[str], place: str) -> Mapping[str, Headers]:
    """Return headers by origin: those of a line that begins with one, else of `origins`.

    lines: `Name: value`; empty ones and those that begin with # are skipped. place: where they are, for errors.
    Raises Misconfigured, without the value, for anything else and for headers that the crawler sets itself.
    """
    found: dict[str, dict[str, str]] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise Misconfigured(f"{place}, line {number}: no header such as `Authorization: Bearer …` in ASCII")
        name = match["name"].lower()
        if name in _REFUSED or name in _OTHERWISE:
            advice = _OTHERWISE.get(name, "leave it out")
            raise Misconfigured(f"{place}, line {number}: the crawler sets {match['name']} itself; {advice}")
        for origin in [origin_of(match["origin"])] if match["origin"] else origins:
            found.setdefault(origin, {})[match["name"]] = match["value"]
    return found


def read_cookies(file: Path, *, hosts: Collection[str]) -> Sequence[Cookie]:
    """Return the cookies of a file that one of the hosts would get, in the Netscape format.

    hosts: with or without a port. Raises Misconfigured where the file cannot be read, and where it has none for any of
    them that has not expired.
    """
    try:
        lines = file.expanduser().read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise Misconfigured(f"the cookies of {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise Misconfigured(f"{file} is no text") from None
    # MozillaCookieJar.load drops session cookies that curl writes with the time 0, fails on domains without the dot
    # that some extensions leave out, and quotes the line with its secret then.
    cookies = list(_cookies(lines, file))
    names = {urlsplit(f"//{host}").hostname or "" for host in hosts}
    mine = [cookie for cookie in cookies if any(_belongs(cookie, name) for name in names)]
    valid = [cookie for cookie in mine if not cookie.is_expired()]
    if not valid:
        what = "the cookies of {} for {} have expired" if mine else "{} has no cookie for {}"
        raise Misconfigured(
            f"{what.format(file, ' and '.join(sorted(names)))}: log in with a browser and export it again"
        )
    return valid


class Login:
    """What a crawl sends to say who asks: headers by origin, and cookies by domain, path and scheme."""

    def __init__(self, headers: Mapping[str, Headers] | None = None, cookies: Iterable[Cookie] = ()) -> None:
        self._headers = headers or {}
        # Otherwise a cookie without a domain also goes to the hosts below its own.
        self._jar = CookieJar(DefaultCookiePolicy(strict_ns_domain=DefaultCookiePolicy.DomainStrictNonDomain))
        for cookie in cookies:
            self._jar.set_cookie(cookie)

    def headers_for(self, url: str) -> Headers:
        """Return the headers for the origin of a URL, without cookies."""
        return self._headers.get(origin_of(url), {})

    def cookies_for(self, url: str) -> Headers:
        """Return the header Cookie for a URL; empty where it gets none."""
        asked = Request(url)  # noqa: S310 - nothing is opened
        self._jar.add_cookie_header(asked)
        sent = asked.get_header("Cookie")
        return {"Cookie": sent} if sent else {}

    def take(self, url: str, set_cookies: Sequence[str]) -> None:
        """Keep what a response asks to keep, as long as the process runs: servers renew sessions."""
        answer = Message()
        for text in set_cookies:
            # Nothing else can be sent back.
            if text.isascii() and text.isprintable():
                answer["Set-Cookie"] = text
        self._jar.extract_cookies(_Answer(answer), Request(url))  # type: ignore[arg-type]  # noqa: S310 - as above

    def for_browser(self, url: str) -> Sequence[Mapping[str, Any]]:
        """Return the cookies as Playwright takes them, to open the page at a URL."""
        host = urlsplit(url).hostname or ""
        return [
            {
                "name": cookie.name,
                "value": cookie.value or "",
                "domain": host if "." not in host and cookie.domain == _jar_host(host) else cookie.domain,
                "path": cookie.path,
                "expires": cookie.expires or -1,
                "secure": cookie.secure,
                "httpOnly": cookie.has_nonstandard_attr(_HTTP_ONLY),
            }
            for cookie in self._jar
        ]


class _Answer:
    def __init__(self, headers: Message) -> None:
        self._headers = headers

    def info(self) -> Message:
        return self._headers


def _cookies(lines: Iterable[str], file: Path) -> Iterator[Cookie]:
    for number, line in enumerate(lines, start=1):
        is_hidden = line.startswith(_HIDDEN)
        text = line.removeprefix(_HIDDEN)
        if not text.strip() or text.startswith("#"):
            continue
        fields = [*text.split("\t"), ""][:_FIELDS]
        if (
            len(fields) < _FIELDS
            or not fields[4].isdecimal()
            or not (text.isascii() and text.replace("\t", "").isprintable())
        ):
            raise Misconfigured(
                f"{file}, line {number}: no cookie in the Netscape format, which has {_FIELDS} fields with tabs between"
            )
        domain, below, path, secure, expires, name, value = fields
        is_domain = domain.startswith(".") or below.upper() == "TRUE"
        host = _jar_host(domain.lstrip(".").lower())
        yield Cookie(
            version=0,
            name=name,
            value=value,
            port=None,
            port_specified=False,
            domain=f".{host}" if is_domain else host,
            domain_specified=is_domain,
            domain_initial_dot=is_domain,
            path=path or "/",
            path_specified=True,
            secure=secure.upper() == "TRUE",
            # 0 is a cookie of the session.
            expires=int(expires) or None,
            discard=not int(expires),
            comment=None,
            comment_url=None,
            rest={_HTTP_ONLY: ""} if is_hidden else {},
        )


def _belongs(cookie: Cookie, host: str) -> bool:
    domain, name = cookie.domain.lstrip("."), _jar_host(host)
    return name == domain or (cookie.domain_specified and name.endswith(f".{domain}"))


def _jar_host(host: str) -> str:
    """Return a host as http.cookiejar names it."""
    return host if "." in host else f"{host}.local"
