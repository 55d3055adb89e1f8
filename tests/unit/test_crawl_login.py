"""What a crawl does where a site asks for a login."""

from pathlib import Path

import pytest

from freki.cli.crawl import _header_lines
from freki.infra.settings import CrawlSettings
from freki.infra.sources.web import read_cookies
from freki.operators.crawl import is_login, is_logout
from freki.schemas.errors import Misconfigured
from tests.unit.published import World
from tests.unit.test_crawling import HOME, Page, Site, crawl, page, paths

COOKIES = "the cookies of wiki.txt"
FORM = "<form><input type=password></form>"
ALL = ("/", "/a", "/b", "/c")


@pytest.fixture
def site() -> Site:
    return Site({"/": page("Home", "/a", "/b"), "/a": page("A", "/"), "/b": page("B", "/c"), "/c": page("C")})


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"location": "/login?next=/"}),
        (301, {"location": "/login"}),
        (301, {"location": "/welcome"}),
        (302, {"location": "https://sso.example.com/start"}),
        401,
        403,
        404,
        410,
        page("Who are you?") + FORM,
        page("Who are you?", head="<meta name=robots content=noindex>") + FORM,
        page("Who are you?", head="<link rel=canonical href=/login>") + FORM,
    ],
    ids=lambda answer: str(answer)[:60],
)
async def test_a_session_that_has_ended_deletes_nothing_and_names_its_cookies(site: Site, answer: Page) -> None:
    world = World()
    await crawl(site, world, login=COOKIES)
    before = dict(world.documents)
    site.pages = dict.fromkeys(ALL, answer)
    site.pages |= {"/login": page("Login") + FORM, "/welcome": page("Welcome") + FORM}

    with pytest.raises(Misconfigured, match=r"wiki\.txt"):
        await crawl(site, world, login=COOKIES)

    assert world.documents == before


@pytest.mark.parametrize(
    "answer",
    [(302, {"location": "/login"}), (301, {"location": "/login"}), 401, page("Who?") + FORM],
    ids=lambda answer: str(answer)[:60],
)
async def test_a_session_that_ends_while_pages_are_read_is_noticed_by_the_start_page(site: Site, answer: Page) -> None:
    world = World()
    names = [f"/{number}" for number in range(20)]
    site.pages = {"/": page("Home", *names)}
    site.pages.update({name: page(name) for name in names})
    await crawl(site, world, login=COOKIES)
    before, fetch = dict(world.documents), site.fetch
    del site.asked[:]

    async def ending(url: str, **given: object) -> object:
        if len(site.asked) == 12:
            site.pages = dict.fromkeys(site.pages, answer)
            site.pages["/login"] = page("Login") + FORM
        return await fetch(url, **given)  # type: ignore[arg-type]

    site.fetch = ending  # type: ignore[assignment,method-assign]
    with pytest.raises(Misconfigured, match="No document was deleted"):
        await crawl(site, world, login=COOKIES)

    assert world.documents == before
    assert len(site.asked) <= 12 + 3 + 2


async def test_a_crawl_goes_on_with_a_new_login_where_the_old_one_had_ended(site: Site) -> None:
    world = World()
    await crawl(site, world, login=COOKIES)
    fine = dict(site.pages)
    site.pages |= dict.fromkeys(("/a", "/b", "/c"), 401) | {"/": page("Home", "/a", "/b", "/new")}
    site.pages["/new"] = (302, {"location": "/login"})
    with pytest.raises(Misconfigured):
        await crawl(site, world, login=COOKIES)
    site.pages = fine | {"/c": page("New"), "/new": page("Newer")}
    del site.asked[:]

    report = await crawl(site, world, login=COOKIES)

    assert "New" in world.documents[f"{HOME}/c"]
    assert [path for path in site.asked if path in {*ALL, "/new"}] == ["/a", "/b", "/new", "/c"]
    assert report.complete


async def test_a_page_that_only_its_reader_may_no_longer_see_is_kept_and_hinders_nothing(site: Site) -> None:
    world = World()
    await crawl(site, world, login=COOKIES)
    site.pages |= {"/b": 403, "/a": page("A now")}
    del site.pages["/c"]

    report = await crawl(site, world, login=COOKIES)

    assert paths(world) == ["/", "/a", "/b"]
    assert report.failed == [f"{HOME}/b may not be read: status 403"]


async def test_pages_that_are_for_others_hinder_nothing(site: Site) -> None:
    site.pages |= {"/": page("Home", "/a", "/hr", "/board"), "/hr": 403, "/board": 403}
    world = World()
    await crawl(site, world, login=COOKIES)
    site.pages["/"] = page("Home", "/hr", "/board")

    report = await crawl(site, world, login=COOKIES)

    assert (paths(world), report.complete) == (["/"], True)
    assert report.left_out == [f"{HOME}/{name} may not be read: status 403" for name in ("hr", "board")]


async def test_pages_that_strangers_see_no_links_to_are_not_deleted(site: Site) -> None:
    world = World()
    await crawl(site, world, login=COOKIES)
    site.pages |= {"/": page("Home"), "/a": 401, "/b": (302, {"location": "/login"})}

    with pytest.raises(Misconfigured, match="asks for a login"):
        await crawl(site, world, login=COOKIES)

    assert paths(world) == ["/", "/a", "/b", "/c"]


async def test_pages_that_nothing_leads_to_any_more_are_deleted_with_a_login_too(site: Site) -> None:
    world = World()
    await crawl(site, world, login=COOKIES)
    site.pages["/"] = page("Home", "/a")

    report = await crawl(site, world, login=COOKIES)

    assert paths(world) == ["/", "/a"]
    assert report.complete


async def test_a_login_is_not_ended_by_the_crawl(site: Site) -> None:
    site.pages["/"] = page("Home", "/a", "/user/logout", "/wp-login.php?action=logout", "/index.php/Special:UserLogout")

    report = await crawl(site, World(), login=COOKIES)

    assert not any("logout" in path.lower() for path in site.asked)
    assert len(report.left_out) == 3


async def test_a_public_page_that_asks_for_a_login_now_stays_and_the_login_is_no_document(site: Site) -> None:
    world = World()
    await crawl(site, world)
    site.pages |= {"/a": (301, {"location": "/login"}), "/login": page("Login")}

    report = await crawl(site, world)

    assert paths(world) == ["/", "/a", "/b", "/c"]
    assert report.failed == [f"{HOME}/a asks for a login: it redirects to {HOME}/login"]


async def test_a_page_with_a_form_for_logins_is_a_document_like_others(site: Site) -> None:
    site.pages["/a"] = page("A") + FORM
    world = World()
    await crawl(site, world, login=COOKIES)
    site.pages["/a"] = page("A new") + FORM

    await crawl(site, world, login=COOKIES)

    assert "A new" in world.documents[f"{HOME}/a"]


async def test_a_page_that_moved_is_followed_with_a_login_too(site: Site) -> None:
    world = World()
    await crawl(site, world, login=COOKIES)
    site.pages |= {"/a": (301, {"location": "/new"}), "/new": page("A")}

    await crawl(site, world, login=COOKIES)

    assert paths(world) == ["/", "/b", "/c", "/new"]


@pytest.mark.parametrize(
    ("url", "login", "logout"),
    [
        ("/login", True, False),
        ("/users/sign_in", True, False),
        ("/wp-login.php?redirect_to=x", True, False),
        ("/wiki/Special:UserLogin?returnto=x", True, False),
        ("/index.php?title=Spezial:Anmelden", True, False),
        ("/Account/LogOn;jsessionid=1", True, False),
        ("/logout", False, True),
        ("/user/sign-out", False, True),
        ("/?action=logout", False, True),
        ("/blog/how-to-login-safely", False, False),
        ("/catalogin", False, False),
        ("/?next=/login", False, False),
    ],
)
def test_logins_are_known_by_words_of_their_addresses(url: str, *, login: bool, logout: bool) -> None:
    assert (is_login(HOME + url), is_logout(HOME + url)) == (login, logout)
    assert is_login(f"https://accounts.example.com{url}")


def test_files_of_cookies_and_headers_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    cookies, headers = tmp_path / "cookies.txt", tmp_path / "headers.txt"
    cookies.write_text(
        "\ufeff# Netscape HTTP Cookie File\nwiki.example\tFALSE\t/\tFALSE\t0\tsid\t1\n", encoding="utf-8"
    )
    headers.write_text("\ufeffX-Token: 1\n", encoding="utf-8")

    [(_, lines)] = _header_lines(CrawlSettings(), [f"@{headers}"])

    assert [cookie.name for cookie in read_cookies(cookies, hosts=["wiki.example"])] == ["sid"]
    assert lines == ["X-Token: 1"]
