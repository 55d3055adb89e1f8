"""Access to web servers, with rendering in a browser, and without access to private networks."""

from freki.infra.sources.web.browser import Browser, find_chromium
from freki.infra.sources.web.client import WebClient
from freki.infra.sources.web.guard import Guard

__all__ = ["Browser", "Guard", "WebClient", "find_chromium"]
