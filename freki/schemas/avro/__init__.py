"""The Avro side of the records: contracts derived from the classes, and codecs between values and bytes.

The dataclasses in `freki.schemas` are the single source. `python -m freki.schemas.avro` writes what follows from them:
`<Record>.avsc`, the contract in force, and `versions/<Record>/<n>.avsc`, every contract that was ever in force, the
current one included. Files under `versions` are frozen: they are how old bytes stay readable, and `versions/SHA256SUMS`
holds their digests.
"""

from freki.schemas.avro.as_json import JsonOfAvro
from freki.schemas.avro.codec import (
    Codec,
    DamagedError,
    SchemaLookup,
    UndecodableError,
    UnencodableError,
    UnknownSchemaIdError,
    schema_id_of,
)
from freki.schemas.avro.contracts import (
    TOPICS,
    Contract,
    Contracts,
    export_schemas,
    list_schemas,
    packaged_contracts,
)

__all__ = [
    "TOPICS",
    "Codec",
    "Contract",
    "Contracts",
    "DamagedError",
    "JsonOfAvro",
    "SchemaLookup",
    "UndecodableError",
    "UnencodableError",
    "UnknownSchemaIdError",
    "export_schemas",
    "list_schemas",
    "packaged_contracts",
    "schema_id_of",
]
