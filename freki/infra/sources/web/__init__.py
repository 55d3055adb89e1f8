"""The web: asking servers, and rendering their pages in a browser, without reaching into a private network."""

from freki.infra.sources.web.browser import Browser, find_chromium
from freki.infra.sources.web.client import WebClient
from freki.infra.sources.web.guard import Guard

__all__ = ["Browser", "Guard", "WebClient", "find_chromium"]
