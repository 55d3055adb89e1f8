"""Serialisers of Freki's records for Kafka libraries: confluent-kafka, aiokafka, kafka-python."""

from typing import Generic, TypeVar

from freki.schemas.avro.codec import Codec

T = TypeVar("T")


class Serializer(Generic[T]):
    """Makes the bytes of one kind of records, Avro in single-object encoding.

    As `value_serializer` of aiokafka and kafka-python, or called with a context as in confluent-kafka's
    `SerializingProducer`. None stays None: a tombstone. Raises freki.schemas.avro.UnencodableError, a ValueError.
    """

    def __init__(self, record: type[T]) -> None:
        self._encode = Codec(record).encode

    def __call__(self, value: T | None, context: object = None) -> bytes | None:  # noqa: ARG002 - confluent-kafka's
        """Return the bytes of a record."""
        return None if value is None else self._encode(value)


class Deserializer(Generic[T]):
    """Reads the bytes of one kind of records, written with any version of its contract that this package knows.

    As `value_deserializer` of aiokafka and kafka-python, or called with a context as in confluent-kafka's
    `DeserializingConsumer`. None stays None. Raises freki.schemas.avro.UndecodableError, a ValueError.
    """

    def __init__(self, record: type[T]) -> None:
        self._decode = Codec(record).decode

    def __call__(self, data: bytes | None, context: object = None) -> T | None:  # noqa: ARG002 - confluent-kafka's
        """Return the record."""
        return None if data is None else self._decode(data)
