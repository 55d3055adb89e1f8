"""What `freki export` and `freki import` refuse before they talk to a store."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from freki.cli.main import app
from freki.infra.archive.writer import ArchiveWriter
from freki.infra.milvus.layout import VERSION
from freki.infra.models import embedder_identity
from freki.infra.settings import Settings
from freki.schemas import RootId, Timestamp
from freki.schemas.archive import ArchiveStart
from freki.schemas.index import Generation
from freki.streams.wire.from_settings import generation_of
from tests.contract.index_records import chunk, page, root
from tests.memory_archive import start_of


@pytest.fixture
def fitting() -> Generation:
    fingerprint, dim = embedder_identity(Settings().models)
    return generation_of(Settings(), embedder=fingerprint, dim=dim)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stack runs, and nothing listens where the store would be."""
    monkeypatch.setenv("FREKI_LOCAL__STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("FREKI_MILVUS__URI", "http://127.0.0.1:1")
    monkeypatch.setenv("FREKI_MILVUS__TIMEOUT_S", "0.1")


def archived(folder: Path, start: ArchiveStart) -> None:
    asyncio.run(write(folder, start))


async def write(folder: Path, start: ArchiveStart) -> None:
    async with ArchiveWriter(folder, start) as archive:
        own = page("r", 1, 0, 1)
        await archive.add_chunks([chunk("c0-0", root_id=RootId("r"))], np.ones((1, start.generation.width), np.float32))
        await archive.add_documents([root("r", pages=(own.page_id,))], [own])
        await archive.end_documents(RootId("r"))
        await archive.finish(Timestamp(2_000))


def printed(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("other", "advice"),
    [
        ({"embedder": "model@1"}, "its embedder is model@1, here it is {}; set FREKI_MODELS__EMBEDDER=model,"),
        ({"dim": 4}, "its dim is 4, here it is 384; set FREKI_MODELS__EMBEDDER=multilingual-e5-small"),
        ({"analyser": "plain@1"}, "its analyser is plain@1, here it is {}; set FREKI_LEXICAL__ANALYSER as it was"),
    ],
)
def test_an_archive_that_does_not_fit_is_refused_with_the_setting_and_what_would_be_embedded(
    tmp_path: Path, fitting: Generation, other: dict[str, object], advice: str
) -> None:
    archived(tmp_path / "a", replace(start_of(replace(fitting, **other)), layout=VERSION))  # type: ignore[arg-type]

    code, text = printed("import", str(tmp_path / "a"))

    [name] = other
    assert code == 1
    assert advice.format(getattr(fitting, name)) in text
    assert "otherwise 1 chunk in 1 document must be embedded again: set FREKI_MILVUS__GENERATION" in text


def test_an_archive_of_another_layout_names_the_version_that_wrote_it(tmp_path: Path, fitting: Generation) -> None:
    archived(tmp_path / "a", replace(start_of(fitting), layout=VERSION - 1))

    code, text = printed("import", str(tmp_path / "a"))

    assert (code, "its layout is" in text, "use the version of Freki that wrote it, 0.1.0" in text) == (1, True, True)


def test_an_archive_that_fits_needs_the_store(tmp_path: Path, fitting: Generation) -> None:
    archived(tmp_path / "a", replace(start_of(fitting), layout=VERSION))

    code, text = printed("import", str(tmp_path / "a"))

    assert (code, "`freki status` shows what runs" in text) == (1, True)


def test_what_is_no_interval_and_no_archive_is_refused(tmp_path: Path) -> None:
    assert "write it as 30m, 1h or 1d" in printed("export", str(tmp_path), "--every", "soon")[1]
    assert "is no archive of `freki export`" in printed("import", str(tmp_path))[1]
