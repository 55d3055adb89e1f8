import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from freki.operators.errors import InvalidEnvelope
from freki.operators.map_envelope import (
    Envelope,
    Fields,
    read_change,
    read_cloudevent,
    read_outbox,
    to_change,
    to_changes,
    without_overtaken,
)
from freki.operators.map_envelope.envelope import ordered
from freki.schemas import DocumentChange, Operation, TenantId, Timestamp

AT = Timestamp(1_700_000_000_000)
FIELDS = Fields(
    document_id="/key",
    prefix="shop/",
    content="/data/body",
    title="/data/title",
    media_type="text/markdown",
    language=None,
    source_uri="/data/url",
    principals=("staff", "/data/readers"),
    attributes={"kind": "/data/kind", "stars": "/data/stars", "missing": "/data/nowhere"},
    version=None,
    event_type="/type",
    deleted_types=("*.deleted",),
    priority=3,
)
DATA = {
    "title": "Tea",
    "body": "# Tea\n\nGreen.",
    "url": "https://x.example/1",
    "kind": "drink",
    "stars": 5,
    "readers": ["kim"],
}
CLOUD = {"specversion": "1.0", "id": "e1", "source": "/shop", "type": "item.changed", "time": "2023-11-14T22:13:20Z"}


def envelope(value: Any, headers: Mapping[str, str] = {}, *, key: bytes | None = b"42", offset: int = 7) -> Envelope:
    return Envelope(
        key=key,
        value=value if value is None or isinstance(value, bytes) else json.dumps(value).encode(),
        headers=tuple((name, text.encode()) for name, text in headers.items()),
        timestamp=Timestamp(AT + 5),
        offset=offset,
    )


def structured(event: dict[str, Any], **fields: Any) -> Envelope:
    return envelope(event, {"content-type": "application/cloudevents+json; charset=utf-8"}, **fields)


def binary(value: Any, content_type: str = "application/json") -> Envelope:
    attributes = {f"ce_{name}": text for name, text in CLOUD.items()}
    return envelope(value, attributes | {"content-type": content_type})


def cloud(given: Envelope, fields: Fields = FIELDS) -> DocumentChange:
    return to_change(read_cloudevent(given), fields, tenant=TenantId("t"))


def test_an_event_becomes_a_document_alike_in_both_modes() -> None:
    change = cloud(structured(CLOUD | {"data": DATA}))

    assert change == cloud(binary(DATA))
    assert change == DocumentChange(
        tenant=TenantId("t"),
        document_id=change.document_id,
        operation=Operation.UPSERT,
        version=ordered(AT, 7),
        occurred_at=AT,
        name="Tea",
        media_type="text/markdown",
        source_uri="https://x.example/1",
        principals=("staff", "kim"),
        attributes={"kind": "drink", "stars": "5"},
        priority=3,
        content="# Tea\n\nGreen.",
    )
    assert change.document_id == "shop/42"


def test_bytes_in_an_event_are_the_content_of_a_file() -> None:
    encoded = base64.b64encode(b"%PDF-1.7").decode()
    event = CLOUD | {"datacontenttype": "application/pdf", "data_base64": encoded}
    fields = replace(FIELDS, content="/data", media_type="/datacontenttype", principals=("everyone",))

    change = cloud(structured(event), fields)

    assert (change.content, change.media_type) == (b"%PDF-1.7", "application/pdf")
    assert cloud(binary(b"%PDF-1.7", "application/pdf"), fields) == change


@pytest.mark.parametrize(
    "given",
    [structured(CLOUD | {"type": "item.deleted"}), envelope(None)],
    ids=["an event of a type that deletes", "a null value"],
)
def test_an_event_may_delete(given: Envelope) -> None:
    change = cloud(given)

    assert (change.operation, change.document_id, change.content) == (Operation.DELETE, "shop/42", None)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (envelope(b"{}"), "no CloudEvent"),
        (structured({"specversion": "1.0", "data": DATA}), "id and source and type missing"),
        (structured(CLOUD | {"data": DATA, "time": "yesterday"}), "time: 'yesterday' is no time"),
        (structured(CLOUD | {"data": DATA, "time": "2023-11-14T22:13:20"}), "no time zone"),
        (structured(CLOUD | {"data_base64": "?"}), "data_base64"),
        (structured(CLOUD | {"data_base64": "ä"}), "data_base64"),
        (structured(CLOUD | {"data": {}}), "content: at /data/body stands nothing"),
        (structured(CLOUD | {"data": DATA | {"body": 7}}), "content: at /data/body stands a int"),
        (structured(CLOUD | {"data": DATA}, key=b""), "document_id: there is nothing at /key"),
        (structured(CLOUD | {"data": DATA | {"readers": [1]}}), "principals"),
        (binary(b"{", "application/json"), "data is no JSON"),
        (binary(b"[" * 100_000, "application/json"), "data is no JSON"),
        (envelope({}, {"content-type": "application/cloudevents-batch+json"}), "send application/cloudevents"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason(given: Envelope, reason: str) -> None:
    with pytest.raises(InvalidEnvelope, match=reason):
        cloud(given)


def test_readers_that_an_event_does_not_name_open_it_to_nobody() -> None:
    nameless = {name: value for name, value in DATA.items() if name != "readers"}

    assert (
        cloud(structured(CLOUD | {"data": nameless}), replace(FIELDS, principals=("/data/readers",))).principals == ()
    )


ROW = replace(
    FIELDS, document_id="/row/id", content="/row/body", title="/row/title", principals=("everyone",), attributes={}
)
POSTGRES = {"connector": "postgresql", "lsn": 24_023_128, "ts_ms": AT}
MYSQL = {"connector": "mysql", "file": "mysql-bin.000003", "pos": 154, "ts_ms": AT}


def changed(op: str, source: dict[str, Any] = POSTGRES, **rows: Any) -> Envelope:
    return envelope({"op": op, "source": source, "before": None, "after": None, **rows}, key=b'{"id": 9}')


def row(given: Envelope, fields: Fields = ROW) -> DocumentChange:
    event = read_change(given)
    assert event is not None
    return to_change(event, fields, tenant=TenantId("t"))


@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_a_row_that_is_written_or_read_by_a_snapshot_is_an_upsert(op: str) -> None:
    change = row(changed(op, after={"id": 9, "title": "Tea", "body": "Green."}))

    assert (change.operation, change.document_id, change.content) == (Operation.UPSERT, "shop/9", "Green.")
    assert (change.version, change.occurred_at) == (24_023_128, AT)


@pytest.mark.parametrize("before", [None, {"id": 9, "body": "Green."}])
def test_a_row_that_is_deleted_deletes_with_or_without_what_it_held(before: Any) -> None:
    change = row(changed("d", before=before))

    assert (change.operation, change.document_id, change.version) == (Operation.DELETE, "shop/9", 24_023_128)


@pytest.mark.parametrize(
    ("before", "deleted"),
    [({"slug": "tee", "body": "Green."}, ["shop/tee"]), ({"slug": "tea", "body": "Black."}, []), (None, []), ({}, [])],
)
def test_a_row_whose_document_gets_another_id_deletes_the_former(before: Any, deleted: list[str]) -> None:
    event = read_change(changed("u", before=before, after={"id": 9, "slug": "tea", "body": "Green."}))
    assert event is not None

    *former, change = to_changes(event, replace(ROW, document_id="/row/slug"), tenant=TenantId("t"))

    assert (change.operation, change.document_id) == (Operation.UPSERT, "shop/tea")
    assert [each.document_id for each in former] == deleted
    assert all((each.operation, each.version) == (Operation.DELETE, change.version) for each in former)


def slugs(*records: tuple[int, str, str | None, str | None]) -> list[tuple[Operation, str]]:
    """Map records of one transaction: row, op, slug before and after; give what is left of their changes."""
    mapped = []
    for place, (number, op, before, after) in enumerate(records):
        rows = [None if slug is None else {"id": number, "slug": slug, "body": "b"} for slug in (before, after)]
        event = read_change(
            replace(
                changed(op, POSTGRES | {"lsn": 100 + place}, before=rows[0], after=rows[1]),
                key=f'{{"id": {number}}}'.encode(),
            )
        )
        assert event is not None
        changes = to_changes(event, replace(ROW, document_id="/row/slug"), tenant=TenantId("t"))
        mapped.append((f"{number}".encode(), changes))
    return [(each.operation, each.document_id.removeprefix("shop/")) for each in without_overtaken(mapped)]


UPSERT, DELETE = Operation.UPSERT, Operation.DELETE


def test_rows_that_swap_the_ids_of_their_documents_delete_none_of_them() -> None:
    swapped = slugs((1, "u", "a", "b"), (2, "u", "b", "a"))

    assert swapped == [(DELETE, "a"), (UPSERT, "b"), (UPSERT, "a")]


@pytest.mark.parametrize(
    ("records", "left"),
    [
        # Taken over, and then deleted by whose it was.
        ([(1, "u", "a", "b"), (2, "d", "b", None)], [(DELETE, "a"), (UPSERT, "b")]),
        ([(2, "d", "b", None), (1, "u", "a", "b")], [(DELETE, "b"), (DELETE, "a"), (UPSERT, "b")]),
        # In a circle of three.
        (
            [(1, "u", "a", "b"), (2, "u", "b", "c"), (3, "u", "c", "a")],
            [(DELETE, "a"), (UPSERT, "b"), (UPSERT, "c"), (UPSERT, "a")],
        ),
        # By the row that has it.
        ([(1, "u", "a", "b"), (1, "d", "b", None)], [(DELETE, "a"), (UPSERT, "b"), (DELETE, "b")]),
        (
            [(1, "u", "a", "b"), (2, "u", "b", "a"), (1, "d", "b", None)],
            [(DELETE, "a"), (UPSERT, "b"), (UPSERT, "a"), (DELETE, "b")],
        ),
    ],
)
def test_a_row_deletes_only_a_document_that_no_other_row_has_taken(records: Any, left: Any) -> None:
    assert slugs(*records) == left


def test_without_keys_of_rows_every_deletion_stays() -> None:
    delete = row(changed("d", before={"id": 9}))
    upsert = row(changed("c", after={"id": 9, "body": "b"}))

    assert without_overtaken([(None, [upsert]), (b"2", [delete])]) == [upsert, delete]
    assert without_overtaken([(b"1", [upsert]), (None, [delete])]) == [upsert, delete]


def test_the_null_value_after_a_deletion_says_nothing() -> None:
    assert read_change(envelope(None, key=b'{"id": 9}')) is None


def test_a_schema_around_key_and_value_is_taken_off() -> None:
    inner = {"op": "c", "source": POSTGRES, "after": {"body": "Green."}}
    given = envelope({"schema": {}, "payload": inner}, key=b'{"schema": {}, "payload": {"id": 9}}')

    assert row(given).document_id == "shop/9"


def test_positions_of_a_binary_log_grow_across_its_files() -> None:
    after = {"id": 1, "body": "x"}
    versions = [
        row(changed("u", MYSQL | {"file": file, "pos": pos}, after=after)).version
        for file, pos in (("bin.000009", 4), ("bin.000009", 2**32), ("bin.000010", 4))
    ]

    assert versions == sorted(set(versions))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (changed("t"), "op is 't'"),
        (changed(cast("Any", ["c"])), r"op is \['c'\]"),
        (changed(cast("Any", {"c": 1})), "op is {'c': 1}"),
        (envelope([]), "no JSON object"),
        (envelope({"op": "c", "after": {"id": 1}}), "no `source`"),
        (changed("c"), "without the row"),
        (changed("c", {"connector": "postgresql", "lsn": None}, after={"id": 1}), "source.lsn is None"),
        (changed("c", {"connector": "mysql", "file": "x"}, after={"id": 1}), "no binary log"),
        (changed("u", after={"id": 1, "body": "__debezium_unavailable_value"}), "REPLICA IDENTITY FULL"),
    ],
)
def test_what_is_no_change_of_a_row_is_refused_with_its_reason(given: Envelope, reason: str) -> None:
    with pytest.raises(InvalidEnvelope, match=reason):
        row(given)


@pytest.mark.parametrize(
    "value",
    [DATA, json.dumps(DATA), {"schema": {}, "payload": DATA}],
    ids=["JSON", "JSON in a string", "with a schema"],
)
def test_an_event_of_an_outbox_becomes_a_document(value: Any) -> None:
    fields = replace(FIELDS, event_type="/headers/eventType")

    written = to_change(read_outbox(envelope(value, {"eventType": "ItemChanged"})), fields, tenant=TenantId("t"))
    deleted = to_change(read_outbox(envelope(value, {"eventType": "Item.deleted"})), fields, tenant=TenantId("t"))
    gone = to_change(read_outbox(envelope(None)), fields, tenant=TenantId("t"))

    assert (written.document_id, written.name, written.version) == ("shop/42", "Tea", ordered(Timestamp(AT + 5), 7))
    assert deleted.operation == gone.operation == Operation.DELETE


def test_a_payload_that_is_plain_text_is_the_content() -> None:
    fields = replace(FIELDS, content="/data", principals=("everyone",))

    assert to_change(read_outbox(envelope(b"Tea is green.")), fields, tenant=TenantId("t")).content == "Tea is green."


@pytest.mark.parametrize(
    ("given", "version"), [(12, 12), ("13", 13), ("2023-11-14T22:13:20Z", ordered(AT, 0))], ids=str
)
def test_a_version_may_come_from_the_event(given: Any, version: int) -> None:
    fields = replace(FIELDS, version="/data/revision")

    assert cloud(structured(CLOUD | {"data": DATA | {"revision": given}}), fields).version == version


def test_a_version_of_very_many_digits_is_refused() -> None:
    with pytest.raises(InvalidEnvelope, match=r"version: '999.* is no time"):
        cloud(structured(CLOUD | {"data": DATA | {"revision": "9" * 5000}}), replace(FIELDS, version="/data/revision"))


def test_a_version_that_is_asked_for_and_missing_is_refused() -> None:
    with pytest.raises(InvalidEnvelope, match="version: at /data/revision stands nothing"):
        cloud(envelope(None), replace(FIELDS, version="/data/revision"))


names = st.text(max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@example(path=["title", ""], content="0")
@given(path=st.lists(names, min_size=1, max_size=4), content=st.text(min_size=1))
def test_a_pointer_finds_what_lies_at_its_path_whatever_the_names(path: list[str], content: str) -> None:
    data: Any = content
    for name in reversed(path):
        data = {name: data}
    pointer = "/data/" + "/".join(name.replace("~", "~0").replace("/", "~1") for name in path)
    # No other field may be where the content is.
    fields = replace(FIELDS, content=pointer, title=None, source_uri=None, principals=("everyone",))

    assert cloud(structured(CLOUD | {"data": data}), fields).content == content


@given(value=st.none() | st.binary(max_size=40) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_record_is_mapped_or_refused(value: bytes | None) -> None:
    for read in (read_cloudevent, read_change, read_outbox):
        for headers in ((), (("content-type", b"application/cloudevents+json"),), (("ce_specversion", b"1.0"),)):
            given = Envelope(key=b"k", value=value, headers=headers, timestamp=AT, offset=0)
            try:
                event = read(given)
                if event is not None:
                    to_change(event, FIELDS, tenant=TenantId("t"))
            except InvalidEnvelope:
                continue


@given(
    times=st.lists(st.integers(0, 10), min_size=2, max_size=20).map(sorted),
    first=st.integers(0, 2**20 - 30),
)
def test_versions_of_a_partition_grow_where_times_do_not_decrease(times: list[int], first: int) -> None:
    versions = [ordered(Timestamp(AT + time), first + number) for number, time in enumerate(times)]

    assert versions == sorted(set(versions))
    assert 0 < versions[0] < versions[-1] < 2**63
