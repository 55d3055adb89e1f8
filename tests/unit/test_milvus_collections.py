import pytest

from freki.infra.milvus.chunk_rows import FETCHED_CODES
from freki.infra.milvus.collections import schema_of
from freki.infra.milvus.layout import CHUNKS, LAYOUTS, Layout


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_a_collection_has_the_columns_of_its_layout_and_is_valid(layout: Layout) -> None:
    schema = schema_of(layout, 384, "{}", partition_key=False)

    schema.verify()
    computed = ["sparse"] if layout is CHUNKS else []
    assert [field.name for field in schema.fields] == [*layout.fields, *computed]
    assert schema.primary_field.name == layout.key
    assert schema.partition_key_field is None


def test_rows_are_partitioned_by_tenant_only_where_the_settings_say_so() -> None:
    schema = schema_of(CHUNKS, 384, "{}", partition_key=True)

    schema.verify()
    assert schema.partition_key_field.name == "tenant"


def test_the_largest_read_of_match_codes_fits_a_message() -> None:
    read = {"row_id", "root_id", "match_code"}
    row_bytes = sum(column.max_bytes for column in CHUNKS.columns if column.name in read)

    assert FETCHED_CODES * row_bytes < 64 * 2**20
