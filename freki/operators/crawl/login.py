"""Recognition of addresses that begin or end a login."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

_LOGIN = frozenset(
    {
        *("anmelden", "auth", "authenticate", "authorize", "connexion", "dologin", "einloggen", "login", "logon"),
        *("oauth", "oauth2", "saml", "saml2", "signin", "sso", "userlogin", "wplogin"),
    }
)
_LOGOUT = frozenset(
    {"abmelden", "ausloggen", "deconnexion", "dologout", "logoff", "logout", "signoff", "signout", "userlogout"}
)
_LOGIN_HOSTS = _LOGIN | {"accounts", "adfs", "id", "idp"}
_MARKS = re.compile(r"[-_]")


def is_login(url: str) -> bool:
    """Return whether the host, a segment of the path or a value of the query names a login, as in `/users/sign_in`."""
    return (urlsplit(url).hostname or "").partition(".")[0] in _LOGIN_HOSTS or not _LOGIN.isdisjoint(_words(url))


def is_logout(url: str) -> bool:
    """Return whether a segment of the path, or a value of the query, names a logout, as in `?action=logout`."""
    return not _LOGOUT.isdisjoint(_words(url))


def _words(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    # "Special:UserLogin" and "login;jsessionid=1" are segments too.
    for text in (*re.split(r"[/:;]", parts.path), *(value for _, value in parse_qsl(parts.query))):
        yield _MARKS.sub("", text.rpartition(":")[2].partition(".")[0]).lower()
