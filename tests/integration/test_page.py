"""The pages of `freki serve` in Chromium: what they show in each state, and that everybody can use them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import uvicorn
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from freki.infra.api.gateway import NO_ANSWER
from freki.infra.http_server.operations import MOST_LETTERS
from freki.schemas import (
    ChunkId,
    DocumentChunk,
    DocumentId,
    ListedDocument,
    Notice,
    NoticeKind,
    Prompt,
    Timestamp,
)
from freki.schemas.answer import StreamEnd
from freki.streams.answering import Answerer
from tests.chromium import needs_chromium, open_chromium
from tests.http_api import InProcess, ScriptedOperations, Unlimited, app_of, letter, receipt
from tests.unit.questions import now
from tests.unit.revisions import TENANT, World, revision

pytestmark = needs_chromium

expect.set_options(timeout=30_000)

ATTACK = "<img src=x onerror=document.title='owned'> 😀"
TEXTS = [
    f"Die Kündigungsfristen betragen drei Monate. {ATTACK}",
    "Die Gebühr beträgt zehn Euro im Jahr und ist im Januar fällig.",
    "Über den Antrag auf Befreiung entscheidet das Amt.",
]
PHONE = {"width": 390, "height": 800}
STANDARDS = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


class Model:
    """Writes a true sentence, and one whose figure is invented; waits before its end if it is to."""

    model = "gemma"

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.release.set()

    async def stream(self, prompt: Prompt, *, max_tokens: int) -> AsyncIterator[str | StreamEnd]:
        assert max_tokens
        number = 1 + prompt.user.split("<source number=")[1:].index(
            next(part for part in prompt.user.split("<source number=")[1:] if "drei Monate" in part)
        )
        yield "<think>Hm.</think>Die Kündigungsfristen betragen drei Monate "
        yield f"[QUELLE-{number}]. Die Gebühr beträgt zwölf Euro [QUELLE-{number}].\n"
        await self.release.wait()
        yield StreamEnd(truncated=False, prompt_tokens=9, completion_tokens=9)


class Served:
    """The pages, and what is behind them."""

    def __init__(self, gateway: InProcess, url: str, model: Model, operations: ScriptedOperations) -> None:
        self.gateway = gateway
        self.url = url
        self.model = model
        self.operations = operations


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    world = World()
    for name, text in zip(("fristen.md", "gebühr.md", "antrag.md"), TEXTS, strict=True):
        await world.feed(revision(name, 1, [text], source_uri=f"https://example.org/{name}"))
    gateway, model, operations = InProcess(world), Model(), ScriptedOperations()
    gateway.documents = (
        _listed("fristen.md", version=1_767_312_000_000),
        _listed("akten/gebühr.pdf", media_type="application/pdf"),
    )
    gateway.chunks = (_chunk(0, TEXTS[0]), _chunk(1, TEXTS[1]))
    app = app_of(gateway, answerer=Answerer(model, Unlimited(), max_tokens=50), operations=operations)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off"))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Served(gateway, f"http://127.0.0.1:{port}", model, operations)
    # The receipts of the page for operators never end by themselves.
    server.should_exit = server.force_exit = True
    await running


@pytest.fixture(scope="module")
async def chromium() -> AsyncIterator[Browser]:
    async with open_chromium() as browser:
        yield browser


@pytest.fixture
async def browser(chromium: Browser) -> AsyncIterator[Browser]:
    yield chromium
    for context in chromium.contexts:
        await context.close()


async def opened(browser: Browser, url: str, **options: Any) -> Page:
    page = await browser.new_page(**{"locale": "de-DE", **options})
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    await page.goto(url)
    return page


async def violations(page: Page) -> list[str]:
    found = await Axe().run(page, options=STANDARDS)
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found.response["violations"]
        for node in each["nodes"]
    ]


async def ask(page: Page, question: str) -> None:
    await page.fill("#question", question)
    await page.keyboard.press("Enter")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, {"width": 1200, "height": 900}], ids=["phone", "desk"])
async def test_every_state_of_the_page_for_questions_is_accessible(
    served: Served, browser: Browser, scheme: str, viewport: dict[str, int]
) -> None:
    page = await opened(browser, served.url, color_scheme=scheme, viewport=viewport)
    status, wrong = page.locator("#status"), dict[str, list[str]]()

    async def check(state: str) -> None:
        wrong[state] = await violations(page)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), state

    await check("empty")
    await page.click("#options summary")
    await expect(page.locator("#facets")).to_contain_text("2")
    await check("filters")
    served.gateway.go_on.clear()
    await ask(page, "Wie lang ist die Kündigungsfrist?")
    await expect(status).to_contain_text("Suche läuft")
    await check("waiting")
    served.model.release.clear()
    served.gateway.go_on.set()
    await expect(page.locator(".doubt")).to_be_visible()
    await check("writing")
    served.model.release.set()
    await expect(status).to_have_text("")
    await check("answer")
    served.gateway.notices = (
        Notice(stage="rerank", kind=NoticeKind.DEGRADED, message="the reranker failed: it took too long"),
        Notice(stage="assemble", kind=NoticeKind.DROPPED, message="2 chunks are over the budget"),
    )
    await ask(page, "Wer entscheidet über den Antrag?")
    await expect(page.locator("#degraded")).to_be_visible()
    await page.click("#left-out summary")
    await page.click("#steps summary")
    await check("degraded")
    served.gateway.ends = TimeoutError()
    await ask(page, "Wer entscheidet?")
    await expect(status).to_contain_text(NO_ANSWER)
    await check("error")

    assert not any(wrong.values()), wrong


async def test_the_answer_cites_what_opens_and_marks_what_no_source_has(served: Served, browser: Browser) -> None:
    page = await opened(browser, served.url)
    await ask(page, "Wie lang ist die Kündigungsfrist?")

    sentences = page.locator(".sentence")
    await expect(sentences).to_have_count(2)
    assert await sentences.nth(0).locator(".doubt").count() == 0
    await expect(sentences.nth(1).locator(".doubt")).to_contain_text("Zahl")
    assert "Hm." not in await page.inner_text("body")
    citation = sentences.nth(0).locator("a")
    await expect(citation).to_contain_text("QUELLE-")
    number = (await citation.inner_text()).strip("[]").partition("-")[2]
    await citation.click()
    await expect(page.locator(f"#source-{number} h3")).to_be_focused()
    # "Kündigungsfristen" by its stem and parts, behind an emoji of two UTF-16 units.
    assert "Kündigungsfristen" in await page.locator(f"#source-{number} .text mark").all_inner_texts()
    assert await page.locator(".hit img").count() == 0
    assert await page.title() == "Freki"


async def test_advice_and_notices_are_marked_with_their_languages(served: Served, browser: Browser) -> None:
    page = await opened(browser, served.url)
    await ask(page, "Wie lang ist die Kündigungsfrist nach dem „Merkblatt zum Widerspruch“?")

    quoted = page.locator("#notices li", has_text="„Merkblatt zum Widerspruch“")
    await expect(quoted).to_have_count(2)
    said = [(await each.get_attribute("lang"), await each.inner_text()) for each in await quoted.all()]
    assert [lang for lang, text in said] == ["en", "de"], said


async def test_a_question_can_be_cancelled_and_asked_without_an_answer(served: Served, browser: Browser) -> None:
    page = await opened(browser, served.url)
    served.gateway.go_on.clear()
    await ask(page, "Wie lang ist die Kündigungsfrist?")
    await page.click("#cancel")
    await expect(page.locator("#status")).to_contain_text("Abgebrochen")
    served.gateway.go_on.set()
    await page.uncheck("input[name=write]")
    await ask(page, "Wie lang ist die Kündigungsfrist?")
    await expect(page.locator(".hit").first).to_be_visible()
    await expect(page.locator("#written")).to_be_hidden()


async def test_filters_are_those_that_the_index_has(served: Served, browser: Browser) -> None:
    page = await opened(browser, served.url)
    await page.click("#options summary")
    await expect(page.locator("select[name=media_type] option")).to_have_count(3)
    await page.select_option("select[name=media_type]", "application/pdf")
    await page.select_option("select[name=attribute]", label="amt: 32")
    await ask(page, "Wie lang ist die Kündigungsfrist?")
    await expect(page.locator("#heading")).to_be_visible()
    given = {(each.field, each.values) for each in served.gateway.asked[-1].filters}
    assert given == {("media_type", ("application/pdf",)), ("attributes.amt", ("32",))}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_an_operator_sees_changes_arrive_and_sends_dead_letters_again_by_keyboard(
    served: Served, browser: Browser, scheme: str
) -> None:
    page = await opened(browser, f"{served.url}/operate", color_scheme=scheme, viewport=PHONE)
    wrong = dict[str, list[str]]()
    await expect(page.locator("#overview table")).to_have_count(3)
    await expect(page.locator(".problems")).to_contain_text("store: no answer")
    await expect(page.locator("#listening")).to_contain_text("mitgehört")
    assert served.gateway.documents
    await expect(page.locator("#documents table")).to_be_visible()
    wrong["whole"] = await violations(page)

    served.operations.arrived.put_nowait(receipt(TENANT, DocumentId("neu.md"), 7))
    await expect(page.locator("#receipts table")).to_contain_text("neu.md")

    await page.get_by_role("button", name="fristen.md zeigen").press("Enter")
    await expect(page.locator("#shown .text").first).to_contain_text("drei Monate")
    # Milliseconds say nothing to readers.
    await expect(page.locator("#shown .facts").first).to_contain_text("Version 02.01.2026")
    wrong["document"] = await violations(page)
    await page.keyboard.press("Escape")

    await page.get_by_role("button", name="Alle 2 erneut senden").press("Enter")
    await expect(page.locator("#confirm")).to_be_visible()
    wrong["confirm"] = await violations(page)
    assert served.operations.sent == []
    await page.get_by_role("button", name="Ja, senden").press("Enter")
    await expect(page.locator("#status")).to_contain_text("2 erneut gesendet")
    assert sorted(served.operations.sent) == ["0/0", "0/2"]
    assert served.operations.by == ["serve:127.0.0.1"]
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.click("#language")
    await expect(page.locator("h1")).to_have_text("Operations")
    wrong["english"] = await violations(page)
    assert not any(wrong.values()), wrong


async def test_more_dead_letters_of_one_cause_than_a_request_may_name_are_sent_again(
    served: Served, browser: Browser
) -> None:
    served.operations.views = [letter(number, "embed") for number in range(MOST_LETTERS + 1)]
    page = await opened(browser, f"{served.url}/operate")

    await page.get_by_role("button", name=f"Alle {MOST_LETTERS + 1} erneut senden").click()
    await page.get_by_role("button", name="Ja, senden").click()

    await expect(page.locator("#status")).to_contain_text(f"{MOST_LETTERS + 1} erneut gesendet, 0 ausgelassen")
    assert len(set(served.operations.sent)) == MOST_LETTERS + 1
    # The latest one last.
    assert served.operations.sent[-1] == "0/0"


async def test_a_document_whose_id_has_steps_of_a_path_is_asked_for_by_that_id(
    served: Served, browser: Browser
) -> None:
    """Browsers take steps such as `..` out of addresses: another document would be shown under this name."""
    served.gateway.documents = (_listed("akten/../gebühr.md"),)
    page = await opened(browser, f"{served.url}/operate")

    async with page.expect_request("**/v1/documents/**") as asked:
        await page.get_by_role("button", name="akten/../gebühr.md").click()

    place = urlsplit((await asked.value).url).path
    assert unquote(place) == "/v1/documents/akten/../gebühr.md"


def _listed(document_id: str, **changes: Any) -> ListedDocument:
    return replace(
        ListedDocument(
            document_id=DocumentId(document_id),
            version=1,
            edition=0,
            deleted=False,
            name=document_id.rpartition("/")[2],
            media_type="text/markdown",
            language="de",
            source_uri=None,
            principals=("everyone",),
            attributes={"amt": "32"},
            characters=120,
            chunks=2,
            content_hash="",
            chunker="",
            embedder="",
            fingerprint="",
            made_by_these_settings=True,
            occurred_at=Timestamp(1),
            recorded_at=now(),
            received_at=now(),
            searchable_at=now(),
        ),
        **changes,
    )


def _chunk(number: int, text: str) -> DocumentChunk:
    return DocumentChunk(
        chunk_id=ChunkId(str(number)),
        path=f"1.{number}",
        ordinal=number,
        start=100 * number,
        end=100 * number + len(text),
        first_page=0,
        last_page=0,
        kind="PROSE",
        heading_path=("Fristen",),
        tokens=10,
        context="",
        text=text,
    )
