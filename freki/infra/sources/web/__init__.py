"""Access to web servers, with rendering in a browser, and without access to private networks."""

from freki.infra.sources.web.browser import Browser, find_chromium
from freki.infra.sources.web.client import WebClient
from freki.infra.sources.web.guard import Guard
from freki.infra.sources.web.login import Login, origin_of, read_cookies, read_headers

__all__ = ["Browser", "Guard", "Login", "WebClient", "find_chromium", "origin_of", "read_cookies", "read_headers"]
