"""Whatever happens to a site and to crawls of it, a last undisturbed one makes its linked pages the documents."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from freki.schemas.errors import Rejected, Unavailable
from tests.unit.published import Killed, World
from tests.unit.test_crawling import HOME, NOINDEX, TEXTLESS, Page, Site, crawl, page, paths

NAMES = "abcdef"
HOPS = len(NAMES)

links = st.lists(st.sampled_from(NAMES), max_size=3).map("".join)
calm = st.tuples(st.sampled_from(["page", "page", "page", "noindex", "gone", "moved"]), links)
rough = calm | st.tuples(
    st.sampled_from(["500", "403", "down", "large", "elsewhere", "canonical", "no text", "circle"]), links
)
Web = Mapping[str, tuple[str, str]]


def site_of(web: Web) -> dict[str, Page]:
    return {f"/{name}": page_of(name, kind, leads) for name, (kind, leads) in web.items()}


def page_of(name: str, kind: str, leads: str) -> Page:
    target = f"/{leads[:1] or 'a'}"
    found: dict[str, Page] = {
        "page": page(name + leads, *leads),
        "noindex": page(name, *leads, head=NOINDEX),
        "gone": 410,
        "moved": (301, {"location": f"/{later(name, leads)}"}),
        "500": 500,
        "403": 403,
        "down": Unavailable("down"),
        "large": Rejected("large"),
        "elsewhere": (302, {"location": target}),
        "canonical": page(name, *leads, head=f'<link rel="canonical" href="{target}">'),
        "no text": TEXTLESS + "".join(f'<a href="{link}"><img></a>' for link in leads),
        "circle": (301, {"location": target}),
    }
    return found[kind]


def later(name: str, leads: str) -> str:
    """Give where a page moved to: none that leads back."""
    return next((link for link in leads if link > name), "nowhere")


def expected(web: Web) -> list[str]:
    reached, waiting = set(), ["a"]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        kind, leads = web.get(name, ("gone", ""))
        waiting += {"page": leads, "noindex": leads, "moved": later(name, leads)[:1]}.get(kind, "")
    return sorted(f"/{name}" for name in reached if web.get(name, ("gone", ""))[0] == "page")


@settings(max_examples=60)
@given(
    before=st.lists(
        st.tuples(st.dictionaries(st.sampled_from(NAMES), rough, min_size=2), st.integers(0, 30), st.integers(0, 30)),
        max_size=4,
    ),
    after=st.dictionaries(st.sampled_from(NAMES), calm),
    days=st.sampled_from([0, 1, 8]),
)
async def test_what_was_published_is_what_links_lead_to_whatever_happened_before(
    before: Sequence[tuple[Web, int, int]], after: Web, days: int
) -> None:
    site, world = Site(), World()
    for web, lives, asked in before:
        site.pages, world.lives, site.lives = site_of(web), lives or 1_000_000, asked or 1_000_000
        with suppress(Killed):
            await crawl(site, world, "/a", max_redirects=HOPS)
        site.time += days * 86_400
    site.pages, world.lives, site.lives = site_of(after), 1_000_000, 1_000_000
    # The first one may go on with one that was killed, and does not ask again what that has read.
    await crawl(site, world, "/a", max_redirects=HOPS)
    site.time += 2 * 86_400

    report = await crawl(site, world, "/a", max_redirects=HOPS)

    assert paths(world) == expected(after)
    assert (report.complete, report.failed) == (True, [])
    assert all(f"{name[1:]}{after[name[1:]][1]}" in world.documents[HOME + name] for name in paths(world))
