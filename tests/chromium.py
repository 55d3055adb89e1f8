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
        if os.environ.get(DECLARED) == "1":
            raise
        return None


CHROMIUM = _found()
"""Its path; None: there is none."""
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=f"needs Chromium, or {DECLARED}=1 to fail without it")


def chromium_of_tests() -> str:
    """Give its path; skip the test where there is none."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    return CHROMIUM


@asynccontextmanager
async def open_chromium() -> AsyncIterator[Browser]:
    """Run it."""
    async with async_playwright() as playwright:
        # As root, which tests may be, Chromium has no sandbox.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        await browser.close()
