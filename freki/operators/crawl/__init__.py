"""Parsing for the crawler: URLs, links of pages, robots.txt, sitemaps; recognition of logins."""

from freki.operators.crawl.login import is_login, is_logout
from freki.operators.crawl.page import MAX_LINKS, PageLinks, decode_page, read_links
from freki.operators.crawl.robots import Robots, robots_rules
from freki.operators.crawl.sitemap import MAX_ENTRIES, Sitemap, read_sitemap
from freki.operators.crawl.url import host_of, normalise_url

__all__ = [
    "MAX_ENTRIES",
    "MAX_LINKS",
    "PageLinks",
    "Robots",
    "Sitemap",
    "decode_page",
    "host_of",
    "is_login",
    "is_logout",
    "normalise_url",
    "read_links",
    "read_sitemap",
    "robots_rules",
]
