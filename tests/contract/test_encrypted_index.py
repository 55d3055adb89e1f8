"""An encrypted index: what the store holds, what moves and rotates, and what it reads from before."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from freki.infra.keys import LocalKeys, make_keys
from freki.infra.keys.envelope import Damaged
from freki.infra.milvus.generations import MilvusGenerations
from freki.infra.milvus.index import MilvusIndex
from freki.infra.milvus.layout import CHUNKS, KEYS, MANIFESTS, Row
from freki.infra.settings import EncryptionSettings, MilvusSettings
from freki.operators.validate_query import parse_condition
from freki.schemas import ChunkId, Filter, FilterOperator, RootId, TenantId, Timestamp
from freki.schemas.errors import Misconfigured, Rejected
from freki.schemas.index import IndexedChunk
from tests.contract.index_records import GENERATION, any_vectors, chunk, page, root, row, scope
from tests.scripted_server import serving as answering
from tests.stack import free_port, serving
from tests.vault_server import VaultServer

SECRETS = ("Geheimnis", "Titelzeile", "Vertraulich", "Ueberschrift", "Codewort", "Stichwort", "Nachklang")


def secret_chunk(chunk_id: str, **changes: Any) -> IndexedChunk:
    given: dict[str, Any] = {
        "text": f"Geheimnis {chunk_id}",
        "context": "Vertraulich",
        "heading_path": ("Ueberschrift",),
        "match_code": "Codewort",
        "name": "Titelzeile",
        "lexical": "stichwort geheimnis stichwort",
    }
    return chunk(chunk_id, **{**given, **changes})


@pytest.fixture
def keys(tmp_path: Path) -> EncryptionSettings:
    path = tmp_path / "freki.keys"
    make_keys(path)
    return EncryptionSettings(keys="local", key_file=path, cache_s=0.001)


@asynccontextmanager
async def opened(store: MilvusSettings, name: str, keys: EncryptionSettings | None) -> AsyncIterator[MilvusIndex]:
    async with MilvusIndex(store, replace(GENERATION, name=name), encryption=keys) as index:
        yield index


async def raw(index: MilvusIndex) -> list[Row]:
    chunks = await index._store._query(CHUNKS, 'row_id != ""', CHUNKS.fields, limit=100)
    pages = await index._store._query(MANIFESTS, 'id != ""', MANIFESTS.fields, limit=100)
    return [*chunks, *pages]


def bytes_below(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


async def found_by(index: MilvusIndex, term: str) -> list[str]:
    [found] = await index.lexical([term], [scope()], limit=9, strong=True)
    return [hit.chunk_id for hit in found]


async def test_no_file_of_the_store_has_what_a_document_says(tmp_path: Path, keys: EncryptionSettings) -> None:
    port = free_port()
    place = tmp_path / "store.db"
    with serving(place, port):
        async with opened(MilvusSettings(uri=f"http://127.0.0.1:{port}"), "files", keys) as index:
            await index.insert([secret_chunk("a"), secret_chunk("b", context="")], any_vectors(2))
            written = page("r0", 1, 0, 2, overlap="Nachklang")
            await index.write_pages([written])
            assert await index.pages([written.page_id]) == {written.page_id: written}
            await index.commit([root("r0", name="Titelzeile")], [])
            assert (await index.roots([RootId("r0")]))[RootId("r0")].name == "Titelzeile"
            rows = repr(await raw(index))
            assert not [secret for secret in SECRETS if secret.lower() in rows.lower()]
            assert await found_by(index, "stichwort") == ["a", "b"]
            assert await found_by(index, "absent") == []
    content = bytes_below(tmp_path)
    assert b"text/markdown" in content
    assert not [secret for secret in SECRETS if secret.lower().encode() in content.lower()]


async def test_equal_terms_of_two_tenants_look_different(store: MilvusSettings, keys: EncryptionSettings) -> None:
    async with opened(store, "enc_tenants", keys) as index:
        other = TenantId("other")
        await index.insert([secret_chunk("a"), secret_chunk("b", tenant=other, root_id=RootId("s"))], any_vectors(2))
        first, second = [set(each["lexical"].split()) for each in await raw(index)]
        assert len(first) == len(second) == 2
        assert not first & second
        [found] = await index.lexical(["stichwort"], [replace(scope(), tenant=other)], limit=9, strong=True)
        assert [hit.chunk_id for hit in found] == ["b"]


@pytest.mark.parametrize("column", ["text", "context", "heading_path", "match_code"])
async def test_a_value_in_another_row_does_not_decrypt(
    column: str, store: MilvusSettings, keys: EncryptionSettings
) -> None:
    async with opened(store, f"enc_moved_{column}", keys) as index:
        await index.insert([secret_chunk("a"), secret_chunk("b")], any_vectors(2))
        rows = {each["chunk_id"]: each for each in await raw(index)}
        await index._store.upsert(CHUNKS, [{**rows["b"], column: rows["a"][column]}])
        with pytest.raises(Damaged):
            await index.fetch([row("b")])
        assert set(await index.fetch([row("a")])) == {row("a")}


async def test_rows_of_before_are_read_and_found_beside_encrypted_ones(
    store: MilvusSettings, keys: EncryptionSettings
) -> None:
    async with opened(store, "enc_mixed", None) as index:
        await index.insert([secret_chunk("a")], any_vectors(1))
    async with opened(store, "enc_mixed", keys) as index:
        await index.insert([secret_chunk("b")], any_vectors(1))
        found = await index.fetch([row("a"), row("b")])
        assert [found[row(name)][0] for name in "ab"] == [secret_chunk("a"), secret_chunk("b")]
        contents = await index.contents([row("a"), row("b")])
        assert [(each.text, each.lexical) for each, _ in (contents[row(name)] for name in "ab")] == [
            (each.text, each.lexical) for each in (secret_chunk("a"), secret_chunk("b"))
        ]
        assert sorted(await found_by(index, "stichwort")) == ["a", "b"]
        assert len(await index.passages([row("a"), row("b")])) == 2
    with pytest.raises(Misconfigured, match="FREKI_ENCRYPTION__KEYS"):
        async with opened(store, "enc_mixed", None):
            pass


async def test_a_generation_that_begins_encrypted_is_asked_by_hashes_only(
    store: MilvusSettings, keys: EncryptionSettings
) -> None:
    async with opened(store, "enc_fresh", keys) as index:
        assert index._sealer is not None
        assert "stichwort" not in index._sealer.terms("stichwort", TenantId("t"))


async def test_keys_rotate_while_the_index_is_read_and_written(store: MilvusSettings, keys: EncryptionSettings) -> None:
    assert keys.key_file is not None
    async with opened(store, "enc_rotated", keys) as index, opened(store, "enc_rotated", keys) as other:
        await index.insert([secret_chunk("a"), secret_chunk("b", root_id=RootId("s"))], any_vectors(2))
        assert await index.key_versions() == {1: 3}
        await LocalKeys(keys.key_file).rotate()
        await index.insert([secret_chunk("c", root_id=RootId("t"))], any_vectors(1))
        assert await index.key_versions() == {1: 3, 2: 1}
        names = [row(name) for name in "abc"]
        assert set(await other.fetch(names)) == set(names)
        assert await other.rewrap_keys() == 3
        assert await other.rewrap_keys() == 0
        assert await index.key_versions() == {2: 4}
        assert set(await index.fetch(names)) == set(names)
        assert await found_by(other, "stichwort") == ["a", "b", "c"]
    # The first version is needed no more.
    content = json.loads(keys.key_file.read_text())
    del content["keys"]["1"]
    keys.key_file.write_text(json.dumps(content))
    async with opened(store, "enc_rotated", keys) as index:
        assert set(await index.fetch(names)) == set(names)


async def test_a_document_whose_key_is_destroyed_is_gone_for_readers(
    store: MilvusSettings, keys: EncryptionSettings
) -> None:
    async with opened(store, "enc_destroyed", keys) as index:
        await index.insert([secret_chunk("a"), secret_chunk("b", root_id=RootId("s"))], any_vectors(2))
        written = page("r0", 1, 0, overlap="Nachklang")
        await index.write_pages([written])
        await index.commit([root("r0", name="Titelzeile")], [])
        assert await index.destroy_keys([RootId("r0")]) == 1
        assert set(await index.fetch([row("a"), row("b")])) == {row("b")}
        assert set(await index.passages([row("a"), row("b")])) == {row("b")}
        assert (await index.pages([written.page_id]))[written.page_id].entries[0].overlap == ""
        assert (await index.roots([RootId("r0")]))[RootId("r0")].name == ""
        [hits] = await index.dense(any_vectors(1), [scope()], limit=9, strong=True)
        assert {hit.chunk_id for hit in hits} == {"a", "b"}
        assert await index.match_codes([hit.row_id for hit in hits]) == {row("b"): "Codewort"}
        # The document comes back: with a new key.
        await index.insert([secret_chunk("c")], any_vectors(1))
        assert set(await index.fetch([row("c")])) == {row("c")}


async def test_purging_a_deleted_document_destroys_its_key(store: MilvusSettings, keys: EncryptionSettings) -> None:
    async with opened(store, "enc_purged", keys) as index:
        await index.insert([secret_chunk("a")], any_vectors(1))
        await index.delete([row("a")])
        await index.commit([root("r0", version=2, deleted=True, searchable_at=Timestamp(1))], [])
        assert await index.purge_deleted(Timestamp(100)) == 1
        assert await index._store.count(KEYS, 'root_id == "r0"') == 0


async def test_a_document_that_comes_back_while_it_is_purged_keeps_the_key_of_its_rows(
    store: MilvusSettings, keys: EncryptionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store, "enc_back", keys) as index, opened(store, "enc_back", keys) as writer:
        await index.insert([secret_chunk("a")], any_vectors(1))
        await index.delete([row("a")])
        await index.commit([root("r0", version=2, deleted=True, searchable_at=Timestamp(1))], [])
        take = index.take_keys

        async def taken_late(root_ids: Sequence[RootId]) -> Sequence[Row]:
            # The writer has looked up the key, and nothing of the document was there when the purge looked.
            await writer.insert([secret_chunk("b", version=3)], any_vectors(1))
            await writer.commit([root("r0", version=3, name="Titelzeile", searchable_at=Timestamp(200))], [])
            return await take(root_ids)

        monkeypatch.setattr(index, "take_keys", taken_late)
        await index.purge_deleted(Timestamp(100))

    async with opened(store, "enc_back", keys) as index:
        there = {head.row_id for head in (await index.rows_of([RootId("r0")]))[RootId("r0")]}
        assert len(there) == 1
        assert set(await index.fetch(list(there))) == there
        assert (await index.roots([RootId("r0")]))[RootId("r0")].name == "Titelzeile"


async def test_a_dropped_generation_takes_its_keys_along(store: MilvusSettings, keys: EncryptionSettings) -> None:
    async with opened(store, "enc_dropped", keys) as index, MilvusGenerations(store) as log:
        await index.insert([secret_chunk("a")], any_vectors(1))
        counts = await log.count_rows("enc_dropped", [RootId("r0"), RootId("nowhere")])
        assert sum(counts.values()) == 2
        await log.drop("enc_dropped")
        assert not [name for name in await log._log.names() if "enc_dropped" in name]


async def test_another_key_file_is_told_at_the_start(
    store: MilvusSettings, keys: EncryptionSettings, tmp_path: Path
) -> None:
    async with opened(store, "enc_other", keys):
        pass
    make_keys(tmp_path / "other.keys")
    with pytest.raises(Misconfigured, match="put that file back"):
        async with opened(store, "enc_other", EncryptionSettings(keys="local", key_file=tmp_path / "other.keys")):
            pass


async def test_vault_is_called_once_for_a_batch_of_documents(store: MilvusSettings, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    with answering(VaultServer()) as vault:
        keys = EncryptionSettings(keys="vault", vault_url=vault.url, vault_token_file=tmp_path / "token")
        documents = [secret_chunk(f"c{number}", root_id=RootId(f"r{number}")) for number in range(20)]
        async with opened(store, "enc_vault", keys) as index:
            vault.requests.clear()
            await index.insert(documents, any_vectors(20))
            await index.fetch([each.row_id for each in documents])
            assert vault.operations == ["encrypt/freki"]
        async with opened(store, "enc_vault", keys) as index:
            vault.requests.clear()
            assert len(await index.fetch([each.row_id for each in documents])) == 20
            assert len(await index.passages([each.row_id for each in documents])) == 20
            assert vault.operations == ["decrypt/freki"]


async def test_names_are_filtered_by_whole_though_the_store_has_hashes(
    store: MilvusSettings, keys: EncryptionSettings
) -> None:
    async with opened(store, "enc_names", None) as index:
        await index.insert([secret_chunk("p", name="alt")], any_vectors(1))
    async with opened(store, "enc_names", keys) as index:
        await index.insert([secret_chunk("a"), secret_chunk("b", name='zwei "drei"')], any_vectors(2))

        async def found(operator: FilterOperator, *values: str) -> str:
            asked = scope(Filter(field="name", operator=operator, values=values))
            [hits] = await index.dense(any_vectors(1), [asked], limit=9, strong=True)
            seen = await index.visible([[ChunkId(name) for name in "abp"]], [asked])
            assert seen[0].keys() == {hit.chunk_id for hit in hits}
            return "".join(sorted(hit.chunk_id for hit in hits))

        assert await found(FilterOperator.EQ, "Titelzeile") == "a"
        assert await found(FilterOperator.EQ, "alt") == "p"
        assert await found(FilterOperator.NE, 'zwei "drei"') == "ap"
        assert await found(FilterOperator.IN, 'zwei "drei"', "alt") == "bp"
        assert await found(FilterOperator.NOT_IN, "Titelzeile", "alt") == "b"
        with pytest.raises(Rejected, match="document_id"):
            await found(FilterOperator.PREFIX, "Titel")

        async def met(text: str) -> str:
            [hits] = await index.dense(any_vectors(1), [scope(where=parse_condition(text))], limit=9, strong=True)
            return "".join(sorted(hit.chunk_id for hit in hits))

        assert await met("name IN ('zwei \"drei\"', alt)") == "bp"
        assert await met("NOT (name = Titelzeile OR name = alt) AND NOT attribute.year >= 2024") == "b"
        with pytest.raises(Rejected, match="document_id"):
            await met("NOT name STARTS WITH Titel")


async def test_erasure_destroys_data_keys_of_a_generation_without_any_key(
    store: MilvusSettings, keys: EncryptionSettings
) -> None:
    async with opened(store, "enc_erased", keys) as index, MilvusGenerations(store) as log:
        await index.insert([secret_chunk("a"), secret_chunk("b", root_id=RootId("s"))], any_vectors(2))
        assert await log.is_encrypted("enc_erased")
        assert await log.destroy_keys("enc_erased", [RootId("r0"), RootId("absent")]) == 1
        assert await log.destroy_keys("enc_erased", [RootId("r0")]) == 0
        assert await log.destroy_keys("enc_erased", []) == 0
        await asyncio.sleep(0.01)
        assert set(await index.fetch([row("a"), row("b")])) == {row("b")}
    assert not await log_of_plain(store)


async def log_of_plain(store: MilvusSettings) -> bool:
    async with opened(store, "enc_none", None), MilvusGenerations(store) as log:
        assert await log.destroy_keys("enc_none", [RootId("r0")]) == 0
        return await log.is_encrypted("enc_none")
