"""`freki git` and `freki crawl` as processes that are killed, on the real broker."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.chromium import CHROMIUM
from tests.integration.commands import contents, freki, latest, published
from tests.integration.stages import PATIENCE_S, World
from tests.web_site import WebSite

COMMITS, FILES = 150, 7
PAGES = 12
HELD_BACK = f"{PAGES} of {PAGES + 1} documents of the crawl 127.0.0.1"


async def succeeds(world: World, *arguments: str, **settings: str) -> None:
    """Run a command to its end."""
    async with freki(world, *arguments, **settings) as process:
        assert await asyncio.wait_for(process.wait(), 3 * PATIENCE_S) == 0


def imported(path: Path) -> Path:
    """Make a repository of many commits, each of which changes one file, and some remove it."""
    stream = []
    for number in range(COMMITS):
        name = f"{number % FILES}.md"
        change = f"D {name}\n" if number % 10 == 9 else f"M 644 inline {name}\ndata <<END\nstate {number}\nEND\n"
        who = f"committer T <t@example.org> {1_700_000_000 + number} +0000\n"
        stream.append(f"commit refs/heads/main\n{who}data 1\nx\n{change}\n")
    for arguments, given in (
        (["init", "--quiet", "--bare", "--initial-branch=main", str(path)], ""),
        (["-C", str(path), "fast-import", "--quiet"], "".join(stream)),
    ):
        subprocess.run(["git", *arguments], input=given, text=True, check=True)  # noqa: S607 - whichever there is
    return path


async def test_a_history_that_is_killed_while_it_is_replayed_goes_on(world: World, tmp_path: Path) -> None:
    repository = imported(tmp_path / "wiki.git")
    command = ("git", str(repository), "--history")

    async with freki(world, *command) as process:
        await published(world, lambda changes: len(changes) >= COMMITS // 10)
        process.kill()
        await process.wait()
    before = len(await published(world, lambda changes: len(changes) >= COMMITS // 10))
    await succeeds(world, *command)
    await succeeds(world, *command)

    records = await world.read_all(world.topics.documents)
    changes = await published(world, lambda changes: len(changes) == len(records))
    expected = {f"wiki/{n % FILES}.md": f"state {n}\n" for n in range(COMMITS) if n % 10 != 9}
    for name in {f"wiki/{n % FILES}.md" for n in range(COMMITS) if n % 10 == 9 and n + FILES >= COMMITS}:
        expected.pop(name)
    assert contents(changes) == expected
    assert before < COMMITS
    # One commit at most is published twice: the one that was at hand.
    again = len(changes) - len(
        {(one.document_id, one.version) if one else number for number, one in enumerate(changes)}
    )
    assert again <= 1


async def test_a_site_that_is_crawled_by_a_process_that_is_killed_is_there_as_a_whole(
    world: World, site: WebSite
) -> None:
    links = "".join(f'<a href="/{number}">{number}</a>' for number in range(PAGES))
    scripted = f"<h1>Menu</h1><nav></nav><script>document.querySelector('nav').innerHTML = `{links}`</script>"
    site.page("/", scripted if CHROMIUM else f"<h1>Menu</h1>{links}")
    for number in range(PAGES):
        site.page(f"/{number}", f"<html lang=en><h1>Page {number}</h1><p>Text of page {number}.")
    settings = {"FREKI_CRAWL__DELAY_S": "0.1", "FREKI_CRAWL__SETTLE_S": "0.05"}
    command = ("crawl", f"{site.url}/", "--private-host", "127.0.0.1")

    async with freki(world, *command, **settings) as process:
        await published(world, lambda changes: len(changes) >= 3)
        process.kill()
        await process.wait()
    await succeeds(world, *command, **settings)
    site.page("/3", "<h1>Page 3</h1><p>Changed.")
    del site.pages["/4"]
    await succeeds(world, *command, **settings)

    records = await world.read_all(world.topics.documents)
    changes = await published(world, lambda changes: len(changes) == len(records))
    texts = contents(changes)
    assert set(texts) == {f"{site.url}/"} | {f"{site.url}/{number}" for number in range(PAGES) if number != 4}
    assert "Changed." in texts[f"{site.url}/3"]
    assert ">11</a>" in texts[f"{site.url}/"]
    # Each page once, but for the one that changed, and the one that was at hand when the process was killed.
    upserts = [one.document_id for one in changes if one is not None and one.content is not None]
    assert len(upserts) <= 1 + PAGES + 1 + 1
    assert latest(changes)[f"{site.url}/5"].attributes["lang"] == "en"


async def test_a_site_in_maintenance_loses_no_document_and_each_crawl_says_so_until_it_is_allowed(
    world: World, site: WebSite, capfd: pytest.CaptureFixture[str]
) -> None:
    site.page("/", "<h1>Menu</h1>" + "".join(f'<a href="/{number}">{number}</a>' for number in range(PAGES)))
    for number in range(PAGES):
        site.page(f"/{number}", f"<h1>Page {number}</h1><p>Text of page {number}.")
    settings = {"FREKI_CRAWL__DELAY_S": "0.01"}
    command = ("crawl", f"{site.url}/", "--no-browser", "--private-host", "127.0.0.1")
    await succeeds(world, *command, **settings)
    site.page("/", "<h1>Maintenance</h1><p>We are back soon.")
    capfd.readouterr()

    async with freki(world, *command, **settings) as process:
        assert await asyncio.wait_for(process.wait(), 3 * PATIENCE_S) == 1
    once = "".join(capfd.readouterr())
    async with freki(world, *command, "--every", "0.1", **settings) as process:
        printed = ""
        async with asyncio.timeout(3 * PATIENCE_S):
            while printed.count(HELD_BACK) < 2:
                await asyncio.sleep(0.05)
                printed += "".join(capfd.readouterr())
        assert process.returncode is None
    held = await published(world, lambda changes: len(changes) == PAGES + 2)
    await succeeds(world, *command, "--delete-most", **settings)
    records = await world.read_all(world.topics.documents)
    after = await published(world, lambda changes: len(changes) == len(records))

    assert HELD_BACK in once
    assert f"{site.url}/0, {site.url}/1, " in once
    assert once.count("--delete-most") == 1
    assert len(contents(held)) == PAGES + 1
    assert "back soon" in contents(held)[f"{site.url}/"]
    assert list(contents(after)) == [f"{site.url}/"]


async def test_a_private_address_is_not_crawled_by_default_and_a_crawl_that_reads_nothing_fails(
    world: World, site: WebSite, capfd: pytest.CaptureFixture[str]
) -> None:
    site.page("/", "<h1>Inside</h1>")

    async with freki(world, "crawl", f"{site.url}/", "--no-browser") as process:
        assert await asyncio.wait_for(process.wait(), 3 * PATIENCE_S) == 1

    printed = "".join(capfd.readouterr())
    assert "--private-host" in printed
    assert "No page could be read." in printed
    assert site.asked == []
    assert await world.read_all(world.topics.documents) == []


async def test_a_site_with_a_login_is_crawled_until_the_login_ends_and_its_secrets_stay(
    world: World, site: WebSite, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = {"cookies.txt": "127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\ts3cr3t-cookie\n", "key.txt": "X-Key: s3cr3t-key\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    site.page("/", "<h1>Inside</h1><p>Home.</p><a href=/a>a</a><a href=/logout>out</a>")
    site.page("/a", "<h1>A</h1><p>Text.</p>")
    site.opens = lambda sent: sent.get("Cookie") == "session=s3cr3t-cookie" and sent.get("X-Key") == "s3cr3t-key"
    settings = {"FREKI_CRAWL__DELAY_S": "0", "FREKI_CRAWL__HEADERS_FILE": str(tmp_path / "key.txt")}
    command = ("crawl", f"{site.url}/", "--private-host", "127.0.0.1", "--cookies", str(tmp_path / "cookies.txt"))

    await succeeds(world, *command, **settings)
    before = contents(await published(world, lambda changes: len(changes) == 2))
    site.opens = lambda _: False
    async with freki(world, *command, **settings) as process:
        assert await asyncio.wait_for(process.wait(), 3 * PATIENCE_S) == 2

    printed = "".join(capfd.readouterr())
    assert len(await world.read_all(world.topics.documents)) == len(before) == 2
    assert "asks for a login: it redirects to" in printed
    assert all(name in " ".join(printed.split()) for name in ("X-Key", "FREKI_CRAWL__HEADERS", "cookies.txt"))
    assert "/logout" not in site.asked
    kept = [*await world.read_all(world.topics.documents), *await world.read_all(world.topics.sources)]
    assert "s3cr3t" not in printed + "".join(f"{one.key!r} {one.value!r} {one.headers!r}" for one in kept)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--header", "s3cr3t"), "--header, line 1: no header"),
        (("--header", "@nowhere.txt"), "nowhere.txt cannot be read"),
        (("--cookies", "nowhere.txt"), "nowhere.txt cannot be read"),
        (("--proxy", "http://ada:s3cr3t@proxy:3128"), "FREKI_CRAWL__PROXY_PASSWORD_FILE"),
        (("--proxy", "socks5://proxy"), "write http://host:port"),
    ],
)
async def test_a_login_or_proxy_that_cannot_be_used_is_named_before_anything_is_asked(
    options: tuple[str, ...], expected: str, world: World, site: WebSite, capfd: pytest.CaptureFixture[str]
) -> None:
    async with freki(world, "crawl", f"{site.url}/", "--private-host", "127.0.0.1", *options) as process:
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 2

    printed = " ".join("".join(capfd.readouterr()).split())
    assert expected in printed
    assert "s3cr3t" not in printed
    assert site.asked == []
