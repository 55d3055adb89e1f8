"""Chromium of this machine, without a window."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, async_playwright

from freki.infra.settings import CrawlSettings
from freki.infra.sources.web import find_chromium
from freki.schemas.errors import Misconfigured

DECLARED = "FREKI_TEST_BROWSER"
"""Variable that is 1 where there is a browser: its tests then fail without one, instead of being skipped."""


def _found() -> str | None:
    try:
        return find_chromium(CrawlSettings())
    except Misconfigured:
        return None


CHROMIUM = _found()
"""Its path; None: there is none."""
_MISSING = f"needs Chromium; with {DECLARED}=1 it fails without"
needs_chromium = pytest.mark.skipif(CHROMIUM is None and os.environ.get(DECLARED) != "1", reason=_MISSING)


def chromium_of_tests() -> str:
    """Give its path; without it skip the test, or fail where it is declared."""
    if CHROMIUM is None and os.environ.get(DECLARED) != "1":
        pytest.skip(_MISSING)
    return find_chromium(CrawlSettings())


@asynccontextmanager
async def open_chromium() -> AsyncIterator[Browser]:
    """Run it."""
    async with async_playwright() as playwright:
        # As root, which tests may be, Chromium has no sandbox.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=chromium_of_tests(), args=flags)
        yield browser
        await browser.close()
