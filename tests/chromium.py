"""Chromium of this machine, without a window."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""Its path; None: there is none."""


@asynccontextmanager
async def open_chromium() -> AsyncIterator[Browser]:
    """Run it."""
    async with async_playwright() as playwright:
        # As root, which tests may be, Chromium has no sandbox.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        await browser.close()
