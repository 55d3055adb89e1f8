"""`freki serve` as a process, beside a running stack: services over HTTP, and people with a browser."""

import asyncio
import re
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import environment, until_asked
from tests.chromium import needs_chromium, open_chromium
from tests.http_api import events_of
from tests.llm_server import LlmServer, an_llm_server, asked_of, writes
from tests.scripted_server import Reply

ATTACK = "<img src=x onerror=document.title='owned'> <script>document.title='owned'</script>"
NAMELESS = """[...document.querySelectorAll('input, select, button, summary')]
    .filter(each => !each.closest('[hidden]') && !each.labels?.length && !each.textContent.trim()).length"""


def quotes(body: Mapping[str, Any]) -> Reply:
    """Write the first sentence of the first source, and one that no source has."""
    text = re.search(r'<source number="1"[^>]*>\n(?:# .*\n+)?(.*?)[.\n]', asked_of(body))
    assert text, asked_of(body)
    return writes("<think>Let me see.</think>", f"{text[1]} [SOURCE-1]. ", "It costs 4711 euros [SOURCE-1].")


@pytest.fixture
def llm() -> Iterator[LlmServer]:
    with an_llm_server() as server:
        server.script = quotes
        yield server


@pytest.fixture
def tenant() -> str:
    """Tenant of a server of its own."""
    return f"serve-{secrets.token_hex(4)}"


@pytest.fixture
async def served(
    freki: Freki, llm: LlmServer, tenant: str, tmp_path: Path
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    free = {"FREKI_SERVE__PORT": "0", "FREKI_SERVE__GRPC_PORT": "0"}
    variables = environment(freki) | free | {"FREKI_TENANT": tenant}
    variables |= {"FREKI_LLM__URL": llm.url, "FREKI_LLM__MODEL": "gemma"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", "serve"), env=variables, cwd=tmp_path, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    said = b""
    while (found := re.search(rb"serving at (http://\S+)/ ", said)) is None:
        line = await process.stderr.readline()
        assert line, said
        said += line
    yield found[1].decode(), process
    if process.returncode is None:
        process.terminate()
    await process.wait()


async def test_a_service_publishes_asks_and_deletes(
    freki: Freki, served: tuple[str, asyncio.subprocess.Process], tenant: str, tmp_path: Path
) -> None:
    url, process = served
    question = {"text": "Wie hoch ist die Hundegebühr?", "top_k": 3}
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        document = {
            "document_id": "hunde.md",
            "content": "Die Hundegebühr beträgt zehn Euro.",
            "principals": ["everyone"],
        }
        published = await client.post("/v1/documents", json=document)
        assert (published.status_code, published.json()["status"]) == (200, "INDEXED"), published.text

        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
        answers = [client.post("/v1/queries", json=question | {"top_k": n}, headers=headers) for n in range(1, 9)]
        for reply in await asyncio.gather(*answers):
            assert reply.json()["hits"][0]["document_id"] == "hunde.md", reply.text
            assert reply.json()["trace_id"] == trace

        listed = (await client.get("/v1/documents")).json()
        assert [each["document_id"] for each in listed["documents"]] == ["hunde.md"]
        shown = (await client.get("/v1/documents/hunde.md")).json()
        assert "zehn Euro" in shown["chunks"][0]["text"]

        wrong = await client.post("/v1/queries", json=question | {"alpha": 3})
        assert wrong.status_code == 400
        assert "alpha" in wrong.json()["detail"]
        unreadable = await client.post("/v1/documents", json={"document_id": "x.pdf", "content_base64": "JVBERi0xLjc="})
        assert unreadable.status_code == 422, unreadable.text

        await _answers_are_written(client, question)
        await _operators_see_all(client, document)

        deleted = await client.delete("/v1/documents/hunde.md")
        assert deleted.json()["status"] == "DELETED"
        assert (await client.post("/v1/queries", json=question)).json()["hits"] == []

        # Limits change while it runs.
        (tmp_path / "freki.toml").write_text("[serve]\nmax_body_mb = 0.00001\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        while (refused := await client.post("/v1/queries", json=question)).status_code == 200:  # noqa: ASYNC110 - it polls
            await asyncio.sleep(0.05)
        assert (refused.status_code, "FREKI_SERVE__MAX_BODY_MB" in refused.text) == (413, True)
        (tmp_path / "freki.toml").write_text("[serve]\nmax_body_mb = 1.0\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        while (await client.post("/v1/queries", json=question)).status_code == 413:  # noqa: ASYNC110 - it polls
            await asyncio.sleep(0.05)

        # A call under way is answered, then the server ends.
        async with until_asked(freki, tenant) as is_under_way:
            last = asyncio.create_task(client.post("/v1/queries", json=question))
            await is_under_way()
        process.send_signal(signal.SIGTERM)
        assert (await last).status_code == 200
    assert await process.wait() == 0


async def _answers_are_written(client: httpx.AsyncClient, question: Mapping[str, Any]) -> None:
    written = await client.post("/v1/answers", json=question)
    events = events_of(written.text)
    assert [name for name, _ in events][:2] == ["result", "marks"]
    sentences = [(data["citations"], data["support"]) for name, data in events if name == "sentence"]
    assert sentences == [([1], "SUPPORTED"), ([1], "UNSUPPORTED")]
    assert events[-1][1]["ending"] == "COMPLETE"


async def _operators_see_all(client: httpx.AsyncClient, document: Mapping[str, Any]) -> None:
    overview = (await client.get("/v1/operations/overview")).json()
    assert overview["problems"] == []
    assert {"chunk", "embed", "retrieve"} <= {stage["stage"] for stage in overview["stages"]}
    assert (await client.get("/v1/operations/dead-letters")).json() is not None
    async with client.stream("GET", "/v1/operations/receipts") as receipts:
        lines = receipts.aiter_lines()
        assert await anext(lines) == "event: ready"
        again = asyncio.create_task(client.post("/v1/documents", json={**document, "content": "Neue Hundegebühr."}))
        async with asyncio.timeout(60):
            while "hunde.md" not in await anext(lines):
                pass
        assert (await again).json()["status"] == "INDEXED"


def _errors_of(page: Page) -> list[str]:
    """Collect what goes wrong in a page."""
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    return wrong


@needs_chromium
async def test_the_page_shows_sources_and_never_their_markup(served: tuple[str, asyncio.subprocess.Process]) -> None:
    url, _ = served
    texts = {
        "hunde.md": f"# Hunde\n\nDie Hundegebühr beträgt zehn Euro. {ATTACK}",
        "dogs.md": "# Dogs\n\nThe dog licence is ten euros a year.",
    }
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for name, text in texts.items():
            readable = {"principals": ["everyone"], "source_uri": f"https://example.org/{name}"}
            document = {"document_id": name, "content": text, **readable}
            assert (await client.post("/v1/documents", json=document)).status_code == 200

    async with open_chromium() as browser:
        for locale, question, name, heading in (
            ("de-DE", "Wie hoch ist die Hundegebühr?", "hunde.md", "Stelle"),
            ("en-GB", "How much is the dog licence?", "dogs.md", "passage"),
        ):
            page = await browser.new_page(locale=locale, viewport={"width": 390, "height": 800})
            wrong = _errors_of(page)
            await page.goto(url)
            await page.keyboard.type(question)
            await page.keyboard.press("Enter")
            first = page.locator(".hit").first
            await expect(first).to_contain_text("zehn Euro" if name == "hunde.md" else "ten euros")
            await expect(page.locator("#heading")).to_contain_text(heading)
            await expect(first.locator(".foot")).to_contain_text(name)
            assert await first.locator("mark").count() > 0
            address = await first.locator("a").get_attribute("href")
            assert address is not None
            assert address.startswith(f"https://example.org/{name}#:~:text=")
            assert await page.locator(".hit img, .hit script").count() == 0
            assert await page.title() == "Freki"
            # Nothing is wider than the phone.
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            # Each field and button has a name for those who do not see it.
            assert await page.evaluate(NAMELESS) == 0
            await expect(page.locator(".sentence")).to_have_count(2)
            await expect(page.locator(".sentence").last.locator(".doubt")).to_be_visible()
            judged = page.locator(".judge button").first
            await judged.click()
            await expect(judged).to_have_attribute("aria-pressed", "true")
            assert wrong == []
            await page.close()
