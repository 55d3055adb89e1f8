from collections.abc import Sequence

import pytest

from freki.infra.settings import ContextProfile, RetrievalSettings
from freki.schemas.errors import Misconfigured
from freki.streams.retrieve.profiles import ReaderProfile, profile_of
from freki.streams.wire.from_settings import profiles_of
from tests.unit.questions import ask, retriever
from tests.unit.revisions import World, revision

PROFILES = profiles_of(RetrievalSettings())


@pytest.mark.parametrize(
    ("model", "budget"),
    [
        ("phi3", (800, 3, 0.4)),
        ("phi3:mini", (800, 3, 0.4)),
        ("llama3.2:1b", (800, 3, 0.4)),
        ("llama3.1:70b", (4000, 10, 0.25)),
        ("meta-llama/Llama-3.1-70B-Instruct", (4000, 10, 0.25)),
        ("qwen2.5:72b", (4000, 10, 0.25)),
        ("default", (2000, 5, 0.3)),
        ("anything else", (2000, 5, 0.3)),
    ],
)
def test_a_model_has_the_profile_that_its_name_says(model: str, budget: tuple[int, int, float]) -> None:
    profile = profile_of(model, PROFILES)

    assert profile is not None
    assert (profile.context_tokens, profile.top_k, profile.min_similarity) == budget


def test_settings_add_profiles_and_replace_them() -> None:
    own = ContextProfile(context_tokens=300, hits=2)

    profiles = profiles_of(RetrievalSettings(profiles={"gemma": own, "phi3": own}))

    for model in ("gemma:2b", "phi3"):
        profile = profile_of(model, profiles)
        assert profile is not None
        assert (profile.context_tokens, profile.top_k) == (300, 2)
    assert "70b" in profiles


def test_a_tokenizer_that_is_none_is_named() -> None:
    wrong = ContextProfile.model_validate({"context_tokens": 300, "hits": 2, "tokenizer": "nowhere/tokenizer.json"})

    with pytest.raises(Misconfigured, match=r"nowhere/tokenizer\.json"):
        profiles_of(RetrievalSettings(profiles={"gemma": wrong}))


async def test_what_a_query_says_wins_over_the_profile_of_its_model() -> None:
    world = World()
    await world.feed(revision("a", 1, [f"der antrag nummer {number} kostet nichts" for number in range(12)]))
    asked = retriever(world, profiles=PROFILES)

    by_model = await ask(asked, "antrag", target_model="phi3", min_similarity=0.0)
    by_query = await ask(asked, "antrag", target_model="phi3", min_similarity=0.0, top_k=7)

    assert (len(by_model.hits), len(by_query.hits)) == (3, 7)


@pytest.mark.parametrize(
    ("model", "told"), [("gemma:2b", True), ("phi3:mini", False), ("default", False), (None, False)]
)
async def test_a_model_that_names_no_profile_gets_the_default_and_the_names_of_all(
    model: str | None, *, told: bool
) -> None:
    world = World()
    await world.feed(revision("a", 1, ["der antrag kostet nichts"]))

    result = await ask(retriever(world, profiles=PROFILES), "antrag", target_model=model)

    notices = [notice.message for notice in result.notices if "target_model" in notice.message]
    expected = (
        "target_model 'gemma:2b' names no profile: that of 'default' holds; there are: 1b, 70b, 72b, default, phi3"
    )
    assert notices == [expected] * told


async def test_tokens_are_counted_as_the_model_counts() -> None:
    world = World()
    await world.feed(revision("a", 1, ["der antrag kostet nichts", "der antrag ist schriftlich zu stellen"]))
    counted: list[str] = []

    def count(texts: Sequence[str]) -> list[int]:
        counted.extend(texts)
        return [1_000] * len(texts)

    profile = ReaderProfile(context_tokens=50, top_k=3, min_similarity=0, count_tokens=count)
    asked = retriever(world, profiles={"phi3": profile})

    assert (await ask(asked, "antrag", target_model="phi3")).context == ""
    assert counted


async def test_advice_names_the_minimum_similarity_of_a_profile_too() -> None:
    world = World()
    await world.feed(revision("a", 1, ["der antrag kostet nichts"]))
    asked = retriever(world, profiles=PROFILES)

    by_profile = await ask(asked, "what does the application cost", target_model="phi3")
    by_query = await ask(asked, "what does the application cost", target_model="phi3", min_similarity=0.1)

    assert "(0.4)" in " ".join(by_profile.advice)
    assert "(0.1)" in " ".join(by_query.advice)
