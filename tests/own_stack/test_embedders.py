"""Prose and code with an embedder each, from documents to answers, and to nothing left."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.settings import ModelSettings, Settings
from freki.operators.identify import root_id
from freki.schemas import ChunkKind, DocumentId, OutcomeStatus, TenantId
from freki.schemas.errors import Misconfigured
from freki.streams.wire.connect import open_index
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import ONE_WORKER, Children, Freki
from tests.acceptance.helpers import ask, delete, documents, publish, upsert, verify
from tests.unit.tiny_models import letter_tokenizer, write_hub_files, write_sentence_encoder

TENANT = "hive"
PROSE = "Bees fly to the flowers of the meadow in the morning, and come back with what they found there."
CODE = "def count(bees):\n    return sum(1 for bee in bees if bee.awake)\n"
MORE = "class Hive:\n    def __init__(self, queen):\n        self.queen = queen\n"
NAMES = ("bees.txt", "count.py", "hive.py")


@pytest.fixture
def models(tmp_path: Path) -> ModelSettings:
    for name, dim in (("prose", 8), ("code", 24)):
        write_sentence_encoder(tmp_path / name, dim=dim, tokenizer=letter_tokenizer())
        write_hub_files(tmp_path / name, dim=dim, max_tokens=512)
    return ModelSettings(
        embedder=str(tmp_path / "prose"), embedders={ChunkKind.CODE: str(tmp_path / "code")}, reranker=None
    )


@pytest.fixture
async def freki(tmp_path: Path, models: ModelSettings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Freki]:
    # Workers and commands read their settings from the environment.
    monkeypatch.setenv("FREKI_MODELS__EMBEDDER", models.embedder)
    monkeypatch.setenv("FREKI_MODELS__EMBEDDERS__CODE", models.embedders[ChunkKind.CODE])
    monkeypatch.setenv("FREKI_MODELS__RERANKER", "none")
    settings = Settings(local=Settings().local.elsewhere(tmp_path / "state"))
    children = Children()
    async with LocalStack(settings, report=children.report, prepare=apply_topics, workers=ONE_WORKER) as stack:
        yield Freki(settings_for(settings, stack.state), children)


async def rows(freki: Freki) -> dict[tuple[str, ChunkKind], str]:
    """Give the model of each row by its document and kind."""
    keys = [root_id(TenantId(TENANT), DocumentId(name)) for name in NAMES]
    async with open_index(freki.settings) as index:
        heads = [head for heads in (await index.rows_of(keys)).values() for head in heads]
        found = [row for row, _ in (await index.fetch([head.row_id for head in heads])).values()]
        # Counted in all collections.
        assert (await index.statistics()).chunks == len(found)
    return {(row.document_id, row.kind): row.embedder.partition("@")[0] for row in found}


async def test_prose_and_code_are_found_edited_and_deleted_each_by_its_embedder(freki: Freki) -> None:
    await publish(freki, *(upsert(TENANT, name, text) for name, text in zip(NAMES, (PROSE, CODE, MORE), strict=True)))
    first = await rows(freki)
    about_prose = await ask(freki, TENANT, PROSE)
    about_code = await ask(freki, TENANT, CODE)

    prose, code = ("bees.txt", ChunkKind.PROSE), ("hive.py", ChunkKind.CODE)
    assert first == {prose: "prose", ("count.py", ChunkKind.CODE): "code", code: "code"}
    assert (documents(about_prose)[0], documents(about_code)[0]) == ("bees.txt", "count.py")
    assert set(documents(about_prose)) == set(documents(about_code)) == set(NAMES)
    # With no reranker there is one notice, and no step failed.
    assert {notice.stage for notice in [*about_prose.notices, *about_code.notices]} == {"rerank"}

    # The same text as something else: it moves to the other collection.
    (moved,) = await publish(freki, upsert(TENANT, "count.py", CODE, version=2, name="count.txt"))
    second = await rows(freki)

    assert (moved.status, moved.embedded, moved.removed) == (OutcomeStatus.UNCHANGED, 1, 1)
    assert second == {prose: "prose", ("count.py", ChunkKind.PROSE): "prose", code: "code"}
    assert await verify(freki) == 0

    await publish(freki, *(delete(TENANT, name, version=3) for name in NAMES))

    assert await rows(freki) == {}

    other = freki.settings.model_copy(update={"models": freki.settings.models.model_copy(update={"embedders": {}})})
    with pytest.raises(Misconfigured, match="FREKI_MODELS__EMBEDDERS back, or set FREKI_MILVUS__GENERATION"):
        async with open_index(other):
            pass
