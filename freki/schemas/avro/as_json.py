"""Foreign Avro records of a schema registry, as JSON."""

import json
from base64 import b64encode
from io import BytesIO
from typing import Any

from fastavro import schemaless_reader

from freki.schemas.avro.codec import DamagedError, SchemaLookup, UnknownSchemaIdError, registered_schema, schema_id_of

_HEADER_BYTES = 5


class JsonOfAvro:
    """Reads Confluent's wire format with any schema of the registry; caches schemas, otherwise pure."""

    def __init__(self, registry: SchemaLookup) -> None:
        self._registry = registry
        self._schemas: dict[int, dict[str, Any]] = {}

    def read(self, data: bytes) -> bytes:
        """Return JSON, with bytes in Base64; data in another format is returned unchanged.

        Raises UndecodableError; UnknownSchemaIdError where fetching that id from the registry may help.
        """
        schema_id = schema_id_of(data)
        if schema_id is None:
            return data
        stream = BytesIO(data)
        stream.seek(_HEADER_BYTES)
        try:
            plain = schemaless_reader(stream, self._schema(schema_id), None)
            text = json.dumps(plain, default=_base64, ensure_ascii=False)
        except (EOFError, IndexError, OverflowError) as error:
            raise DamagedError(f"cut short or damaged near byte {stream.tell()}") from error
        if surplus := len(data) - stream.tell():
            raise DamagedError(f"{surplus} bytes follow the record")
        return text.encode(errors="replace")

    def _schema(self, schema_id: int) -> dict[str, Any]:
        if schema_id not in self._schemas:
            text = self._registry.schema_of(schema_id)
            if text is None:
                raise UnknownSchemaIdError(schema_id)
            _, self._schemas[schema_id] = registered_schema(schema_id, text)
        return self._schemas[schema_id]


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"a {type(value).__name__} is nothing that Avro reads")
