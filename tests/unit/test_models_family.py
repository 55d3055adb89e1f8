from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.models import (
    FakeEmbedder,
    check_models,
    embedder_identity,
    ensure_built,
    joint_identity,
    kind_embedder_identities,
)
from freki.infra.models.embedder import OnnxEmbedder
from freki.infra.models.multi_embedder import Family, UnrelatedCosines, likeness_of, open_embedder
from freki.infra.settings import ModelSettings, Settings
from freki.schemas import ChunkKind
from freki.schemas.embeddings import Embeddings
from freki.schemas.errors import Misconfigured
from tests.unit.tiny_models import letter_tokenizer, write_cross_encoder, write_hub_files, write_sentence_encoder

TEXTS = ("red wine", "blue sky", "the red sky", "a blue wine of the sky")
cosines = st.floats(-0.3, 0.95)


def family(*likeness: UnrelatedCosines) -> Family:
    apart = [((kind,), FakeEmbedder(dim)) for kind, dim in zip((ChunkKind.CODE, ChunkKind.TABLE), (8, 32), strict=True)]
    return Family(FakeEmbedder(16), apart[: len(likeness) - 1], likeness)


@given(one=cosines, two=cosines, three=cosines)
async def test_products_are_a_linear_map_of_cosines_that_takes_unrelated_texts_to_the_same_place(
    one: float, two: float, three: float
) -> None:
    likeness = [UnrelatedCosines(each, each) for each in (one, two, three)]
    joined = family(*likeness)
    highest = max(one, two, three)

    questions = (await joined.embed_queries(TEXTS)).vectors
    for kind, dim, unrelated in ((ChunkKind.PROSE, 16, one), (ChunkKind.CODE, 8, two), (ChunkKind.TABLE, 32, three)):
        passages = (await joined.of(kind).embed_passages(TEXTS)).vectors
        single = FakeEmbedder(dim)
        before = (await single.embed_queries(TEXTS)).vectors @ ((await single.embed_passages(TEXTS)).vectors).T
        share = (before - unrelated) / (1 - unrelated)
        np.testing.assert_allclose(questions @ passages.T, highest + (1 - highest) * share, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)
    assert joined.unrelated == pytest.approx(highest)


async def test_chunks_of_two_embedders_have_nothing_in_common() -> None:
    joined = family(UnrelatedCosines(0.7, 0.7), UnrelatedCosines(0.1, 0.1))

    prose = (await joined.of(ChunkKind.PROSE).embed_passages(TEXTS)).vectors
    code = (await joined.of(ChunkKind.CODE).embed_passages(TEXTS)).vectors

    assert prose.shape == code.shape == (len(TEXTS), joined.dim)
    assert not (prose @ code.T).any()


async def test_parts_of_longer_texts_stand_in_the_same_place() -> None:
    joined = family(UnrelatedCosines(0.7, 0.7), UnrelatedCosines(0.1, 0.1))

    within = (await joined.of(ChunkKind.CODE).embed_within(["red wine"], [[(0, 3)]])).vectors

    assert np.flatnonzero(within[0]).min() == 17
    assert np.linalg.norm(within[0]) == pytest.approx(1)


async def test_an_embedder_that_tells_no_texts_apart_is_refused() -> None:
    class Same(FakeEmbedder):
        async def embed_passages(self, texts: Sequence[str], headings: Sequence[str] = ()) -> Embeddings:  # noqa: ARG002
            return Embeddings(np.tile(np.eye(1, self.dim, dtype=np.float32), (len(texts), 1)))

        embed_queries = embed_passages

    with pytest.raises(Misconfigured, match="FREKI_MODELS__EMBEDDERS"):
        await likeness_of(Same())


@pytest.fixture
def settings(tmp_path: Path) -> ModelSettings:
    """Two models in directories, of 8 and of 24 numbers; code has the second."""
    for name, dim in (("prose", 8), ("code", 24)):
        write_sentence_encoder(tmp_path / name, dim=dim, tokenizer=letter_tokenizer())
        write_hub_files(tmp_path / name, dim=dim)
    return ModelSettings(
        embedder=str(tmp_path / "prose"),
        embedders={ChunkKind.CODE: str(tmp_path / "code")},
        reranker=None,
        cache_dir=tmp_path / "cache",
        threads=1,
    )


async def test_the_identity_is_known_without_loading_a_model(settings: ModelSettings) -> None:
    fingerprint, dim = embedder_identity(settings)
    (apart,) = kind_embedder_identities(settings)

    async with open_embedder(settings) as embedder:
        assert embedder.of(ChunkKind.PROSE).fingerprint == fingerprint
        assert embedder.of(ChunkKind.CODE).fingerprint == apart.embedder
        assert embedder.fingerprint == joint_identity(settings)
        assert (dim, apart.dim, embedder.dim) == (9, 25, 34)
        assert ((await embedder.of(ChunkKind.CODE).embed_passages(["for i in x"])).vectors).shape == (1, 34)


async def test_without_the_setting_there_is_one_embedder_as_ever(settings: ModelSettings) -> None:
    alone = settings.model_copy(update={"embedders": {}})

    async with open_embedder(alone) as embedder, OnnxEmbedder(alone) as before:
        assert isinstance(embedder, OnnxEmbedder)
        assert (embedder.fingerprint, embedder.dim) == (before.fingerprint, before.dim) == embedder_identity(alone)
        assert joint_identity(alone) == before.fingerprint


async def test_kinds_that_name_the_default_have_none_of_their_own(settings: ModelSettings) -> None:
    same = settings.model_copy(update={"embedders": {ChunkKind.CODE: settings.embedder}})

    assert kind_embedder_identities(same) == ()
    async with open_embedder(same) as embedder:
        assert isinstance(embedder, OnnxEmbedder)


async def test_kinds_that_name_the_same_model_share_it(settings: ModelSettings) -> None:
    code = settings.embedders[ChunkKind.CODE]
    both = settings.model_copy(update={"embedders": {ChunkKind.CODE: code, ChunkKind.TABLE: code}})

    (apart,) = kind_embedder_identities(both)
    async with open_embedder(both) as embedder:
        assert embedder.of(ChunkKind.CODE) is embedder.of(ChunkKind.TABLE) is not embedder.of(ChunkKind.LIST)
    assert apart.kinds == (ChunkKind.TABLE, ChunkKind.CODE)


@pytest.mark.parametrize("kind", ["code", "CODE"])
def test_kinds_are_named_in_the_environment_in_any_case(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv(f"FREKI_MODELS__EMBEDDERS__{kind}", "all-MiniLM-L6-v2")

    assert Settings().models.kind_embedders == {ChunkKind.CODE: "all-MiniLM-L6-v2"}


async def test_every_model_is_checked(settings: ModelSettings) -> None:
    assert [check.name for check in await check_models(settings)] == ["prose", "code"]


async def test_a_mistyped_reranker_is_answered_with_all_choices(settings: ModelSettings) -> None:
    wrong = settings.model_copy(update={"reranker": "late"})

    with pytest.raises(Misconfigured, match="RERANKER=late is neither a directory nor one of late-interaction, none, "):
        await ensure_built(wrong)


@pytest.mark.parametrize(
    ("name", "reason"), [("nowhere", "is neither a directory nor one of"), ("pairs", "is no embedder")]
)
async def test_a_model_that_does_not_fit_is_named_with_its_setting(
    settings: ModelSettings, tmp_path: Path, name: str, reason: str
) -> None:
    write_cross_encoder(tmp_path / "pairs")
    wrong = settings.model_copy(update={"embedders": {ChunkKind.CODE: str(tmp_path / name)}})

    with pytest.raises(Misconfigured, match=f"FREKI_MODELS__EMBEDDERS__CODE=.*{name} {reason}"):
        async with open_embedder(wrong):
            pass
