import pytest

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
