"""Creates the collections of a generation, and checks that existing ones belong to it."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pymilvus import AsyncMilvusClient, CollectionSchema, DataType, Function, FunctionType
from pymilvus.milvus_client.index import IndexParams

from freki.infra.milvus import layout
from freki.infra.milvus.data_keys import TERMS, DataKeys
from freki.infra.milvus.layout import (
    CHUNKS,
    DOCUMENTS,
    GENERATIONS,
    KEYS,
    LAYOUTS,
    MANIFESTS,
    PLACEHOLDER,
    Column,
    Kind,
    Layout,
)
from freki.infra.milvus.shards import shards_of
from freki.infra.milvus.store import DDL_TIMEOUT_S, MilvusStore, together
from freki.infra.settings import MilvusSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas.errors import Misconfigured, Rejected
from freki.schemas.index import Generation

# The values of Robertson and Zaragoza (2009), which Milvus has as its defaults too.
BM25_K1 = 1.2
BM25_B = 0.75
LOAD_TIMEOUT_S = 900.0
"""Timeout of `load_collections` for each: Milvus Lite loads about 6,000 chunks a second."""

_ARRAY: dict[str, Any] = {"datatype": DataType.ARRAY, "max_capacity": layout.ELEMENTS}
_SPECIAL: dict[str, dict[str, Any]] = {
    "placeholder": {"dim": len(PLACEHOLDER)},
    "lexical": {"enable_analyzer": True, "analyzer_params": {"tokenizer": "whitespace"}},
}
_SETTINGS = {
    "embedders": "FREKI_MODELS__EMBEDDERS",
    "embedder": "FREKI_MODELS__EMBEDDER",
    "dim": "FREKI_MODELS__EMBEDDER",
    "analyser": "the version of Freki",
    "layout": "the version of Freki",
}


_LOOKED_UP = {DOCUMENTS.name: ("key",), MANIFESTS.name: ("root_id",), KEYS.name: ("root_id", "key_id")}
"""Columns other than the key by which rows are read, by the name of the collection."""
_MIXED = "mixed"
_UNSAID: dict[str, Any] = {"embedders": {}}


async def open_collections(
    store: MilvusStore, generation: Generation, *, partition_key: bool, creates: bool = True
) -> None:
    """Create missing collections and indexes, and load all. Safe to run concurrently and after a partial run.

    Raises Misconfigured if a collection was made for another generation, and Rejected for a missing one that is not to
    be created.
    """
    made_for = _made_for(generation)
    first, *further = shards_of(generation)
    shards = [(each, first.dim) for each in LAYOUTS], [(each.layout, each.dim) for each in further]
    # Those of further embedders afterwards, so that a generation of other embedders gets none of these.
    for group in shards:
        if creates:
            await together(_create(store, each, dim, made_for, partition_key=partition_key) for each, dim in group)
        await together(_open(store, each, made_for) for each, _ in group)


async def open_keys(store: MilvusStore, generation: Generation, keys: DataKeys) -> bool:
    """Create the collection of data keys if it is missing, and load it; return whether rows may be older than it.

    To be called before `open_collections`. Its description has the key of terms: who creates it first decides for all.
    """
    made_for = _made_for(generation)
    if not await store.has(KEYS, timeout_s=DDL_TIMEOUT_S):
        made_for |= {TERMS: await keys.new_terms_key(), _MIXED: await store.has(CHUNKS, timeout_s=DDL_TIMEOUT_S)}
        schema = schema_of(KEYS, 0, json.dumps(made_for), partition_key=False)
        try:
            await store.create(KEYS, schema)
        except Rejected:
            if not await store.has(KEYS):
                raise
    description = await store.description(KEYS)
    _check(store.name(KEYS), description, _made_for(generation))
    await store.index_and_load(KEYS, _indexes(KEYS, exact=store.is_lite))
    return bool(json.loads(description).get(_MIXED, True))


async def check_plain(store: MilvusStore) -> None:
    """Raise Misconfigured if the generation has data keys: without them its rows cannot be read."""
    if await store.has(KEYS):
        raise Misconfigured(
            f"the index of {store.name(KEYS)} is encrypted: set FREKI_ENCRYPTION__KEYS as where it was made, or "
            "FREKI_MILVUS__GENERATION to a new name, whose index is filled from the stream (`freki generations`)"
        )


async def open_log(store: MilvusStore) -> None:
    """Create the collection of the log of generations if it is missing, and load it."""
    made_for = {"log": 1}
    await _create(store, GENERATIONS, 0, made_for, partition_key=False)
    await _open(store, GENERATIONS, made_for)


async def load_collections(settings: MilvusSettings) -> None:
    """Load all collections of Freki that the store has, before any process waits for an answer.

    Milvus Lite answers nothing else while it loads one.
    """
    store = MilvusStore(settings, None, Calls())
    store.open()
    try:
        for name in await store.names():
            if name.startswith(f"{settings.collection_prefix}_"):
                layout = Layout(name.removeprefix(f"{settings.collection_prefix}_"), ())
                # One without all its indexes is loaded by the process that makes them.
                with suppress(Rejected):
                    await store.load(layout, timeout_s=LOAD_TIMEOUT_S)
    finally:
        await store.close()


def _made_for(generation: Generation) -> dict[str, Any]:
    """Return the parameters of a generation, as stored in the descriptions of its collections."""
    embedders = {kind.value: [each.embedder, each.dim] for each in generation.kind_embedders for kind in each.kinds}
    return {
        # The first of these that differs is the one to tell: further embedders change the name of the first one, too.
        "embedders": embedders,
        "layout": layout.VERSION,
        "name": generation.name,
        "embedder": generation.embedder,
        "dim": generation.dim,
        "analyser": generation.analyser,
    }


async def _create(
    store: MilvusStore, made_of: Layout, dim: int, made_for: Mapping[str, Any], *, partition_key: bool
) -> None:
    if not await store.has(made_of, timeout_s=DDL_TIMEOUT_S):
        schema = schema_of(made_of, dim, json.dumps(made_for), partition_key=partition_key)
        try:
            await store.create(made_of, schema)
        except Rejected:
            # Another process may have created it first, with other parameters: check those.
            if not await store.has(made_of):
                raise


async def _open(store: MilvusStore, made_of: Layout, made_for: Mapping[str, Any]) -> None:
    _check(store.name(made_of), await store.description(made_of), made_for)
    await store.index_and_load(made_of, _indexes(made_of, exact=store.is_lite))


def _check(collection: str, description: str, expected: Mapping[str, Any]) -> None:
    try:
        found = json.loads(description)
        different = [field for field, value in expected.items() if found.get(field, _UNSAID.get(field)) != value]
    except (ValueError, AttributeError) as error:
        raise Misconfigured(
            f"the collection {collection} was not made by Freki: set FREKI_MILVUS__COLLECTION_PREFIX to another"
        ) from error
    if different:
        field = different[0]
        raise Misconfigured(
            f"the index {collection} was made with {field} {found.get(field, _UNSAID.get(field))!r}, not "
            f"{expected[field]!r}: "
            f"put {_SETTINGS.get(field, 'FREKI_MILVUS__GENERATION')} back, or set FREKI_MILVUS__GENERATION to a new "
            "name, whose index is filled from the stream (`freki generations`)"
        )


def schema_of(made_of: Layout, dim: int, description: str, *, partition_key: bool) -> CollectionSchema:
    """Return the Milvus schema of a collection."""
    schema = AsyncMilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
    for column in made_of.columns:
        schema.add_field(
            column.name,
            **_field(column, dim),
            is_primary=column.name == made_of.key,
            is_partition_key=partition_key and column.name == "tenant",
        )
    if made_of.is_searched:
        _add_bm25(schema)
    return schema


def _field(column: Column, dim: int) -> dict[str, Any]:
    options: dict[Kind, dict[str, Any]] = {
        Kind.TEXT: {"datatype": DataType.VARCHAR, "max_length": column.max_bytes},
        Kind.TEXTS: {**_ARRAY, "element_type": DataType.VARCHAR, "max_length": column.max_bytes},
        Kind.INTEGER: {"datatype": DataType.INT64},
        Kind.INTEGERS: {**_ARRAY, "element_type": DataType.INT64},
        Kind.FLAG: {"datatype": DataType.BOOL},
        Kind.JSON: {"datatype": DataType.JSON},
        Kind.VECTOR: {"datatype": DataType.FLOAT_VECTOR, "dim": dim},
    }
    return {**options[column.kind], **_SPECIAL.get(column.name, {})}


def _add_bm25(schema: CollectionSchema) -> None:
    schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_function(
        Function(
            name="bm25", function_type=FunctionType.BM25, input_field_names=["lexical"], output_field_names=["sparse"]
        )
    )


def _indexes(made_of: Layout, *, exact: bool) -> list[IndexParams]:
    if not made_of.is_searched:
        return [
            _index("placeholder", index_type="FLAT", metric_type="L2"),
            *(_index(column, index_type="INVERTED") for column in _LOOKED_UP.get(made_of.name, ())),
        ]
    return [
        # The approximate index of Milvus Lite found 7 of the nearest 10 of 100,000 chunks. Embedders give vectors of
        # length 1, whose inner product is the cosine; for a cosine Milvus Lite computes all norms at each search.
        _index("dense", index_type="FLAT" if exact else "AUTOINDEX", metric_type="IP"),
        _index(
            "sparse",
            index_type="SPARSE_INVERTED_INDEX",
            metric_type="BM25",
            params={"bm25_k1": BM25_K1, "bm25_b": BM25_B},
        ),
        _index("root_id", index_type="INVERTED"),
        _index("chunk_id", index_type="INVERTED"),
    ]


def _index(field: str, **options: Any) -> IndexParams:  # noqa: ANN401 - the vendor's
    indexes = AsyncMilvusClient.prepare_index_params()
    indexes.add_index(field, index_name=field, **options)
    return indexes
