"""Sizes of chunks that contradict each other, or the embedder, stop the start with the names of the settings."""

from collections.abc import Sequence
from functools import partial

import pytest

from freki.infra.models import check_window
from freki.infra.settings import ChunkingSettings, ModelSettings, RemoteEmbedderSettings, Settings
from freki.operators.chunk import chunk_document
from freki.operators.identify import chunk_id
from freki.operators.parse_text import parse_text
from freki.operators.recognise import Profile
from freki.schemas import ChunkKind, DocumentId, TenantId
from freki.schemas.errors import Misconfigured
from freki.streams.wire.rules import limits_of

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_tokens": 300}, "FREKI_CHUNKING__MIN_TOKENS=300 is above FREKI_CHUNKING__MAX_TOKENS=256"),
        ({"min_chars": 900}, "FREKI_CHUNKING__MIN_CHARS=900 is above FREKI_CHUNKING__TEXT__MAX_CHARS=800"),
        (
            {"pdf": {"max_chars": 100, "overlap_chars": 100}},
            "FREKI_CHUNKING__PDF__OVERLAP_CHARS=100 is not below FREKI_CHUNKING__PDF__MAX_CHARS=100",
        ),
        (
            {"least_similarity": 0.8, "breakpoint_percentile": 90},
            "FREKI_CHUNKING__LEAST_SIMILARITY and FREKI_CHUNKING__BREAKPOINT_PERCENTILE",
        ),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChunkingSettings.model_validate(settings)


def test_chunks_and_their_context_must_fit_the_embedder() -> None:
    assert check_window(ModelSettings(), max_tokens=428) == []
    with pytest.raises(Misconfigured, match="FREKI_CHUNKING__MAX_TOKENS to at most 428"):
        check_window(ModelSettings(), max_tokens=429)
    with pytest.raises(Misconfigured, match=r"FREKI_MODELS__EMBEDDER=all-MiniLM-L6-v2 reads, .* at most 172"):
        check_window(ModelSettings(embedder="all-MiniLM-L6-v2"), max_tokens=256)


def test_contexts_by_a_language_model_must_fit_too() -> None:
    assert check_window(ModelSettings(), max_tokens=256, written_chars=500) == []
    with pytest.raises(Misconfigured, match="at most 228, FREKI_CONTEXTS__MAX_CHARS lower"):
        check_window(ModelSettings(), max_tokens=256, written_chars=600)


@pytest.mark.parametrize(("window", "advice"), [(8, "choose an embedder"), (115, "choose"), (116, "at most 32")])
def test_no_size_of_chunks_is_advised_that_is_none(window: int, advice: str) -> None:
    remote = RemoteEmbedderSettings(url="http://host/v1", model="m", dim=4, max_tokens=window)
    with pytest.raises(Misconfigured, match=f": (set FREKI_CHUNKING__MAX_TOKENS to )?{advice}") as refused:
        check_window(ModelSettings(embedder="remote", remote=remote), max_tokens=256)

    assert "at most -" not in str(refused.value)


def test_a_window_of_late_chunking_is_checked_elsewhere() -> None:
    assert check_window(ModelSettings(late_window_tokens=480), max_tokens=480) == []


def test_an_embedder_of_one_kind_that_may_cut_off_chunks_is_named() -> None:
    models = ModelSettings(embedders={ChunkKind.CODE: "all-MiniLM-L6-v2"})

    (remark,) = check_window(models, max_tokens=256)

    assert "FREKI_MODELS__EMBEDDERS__CODE=all-MiniLM-L6-v2 reads 256 tokens" in remark
    assert check_window(models, max_tokens=172) == []


SIZES = {
    Profile.PDF: (1000, 150),
    Profile.TEXT: (800, 120),
    Profile.MARKDOWN: (1200, 150),
    Profile.CODE: (600, 80),
    Profile.DOCX: (800, 120),
}


def test_the_five_profiles_have_the_sizes_that_are_asked_for() -> None:
    limits = limits_of(Settings().chunking)

    assert {profile: (limits[profile].max_chars, limits[profile].overlap_chars) for profile in SIZES} == SIZES


@pytest.mark.parametrize(("profile", "sizes"), SIZES.items())
def test_chunks_of_each_profile_end_at_sentences_within_its_sizes(profile: Profile, sizes: tuple[int, int]) -> None:
    def count_tokens(texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    told = " ".join(f"Satz {number} handelt von {number * 7919 % 1009} Dingen im Amt." for number in range(300))
    chunks = chunk_document(
        parse_text(told),
        identify=partial(chunk_id, TenantId("acme"), DocumentId("document")),
        count_tokens=count_tokens,
        limits=limits_of(Settings().chunking)[profile],
    )
    leaves = [chunk for chunk in chunks if chunk.kind is not ChunkKind.SUMMARY]

    assert len(leaves) > 1
    assert all(len(leaf.text) <= sizes[0] and leaf.text.endswith("Amt.") for leaf in leaves)
    assert all(len(leaf.overlap) <= sizes[1] for leaf in leaves)
    assert all(leaf.overlap for leaf in leaves[1:])
