"""Kafka clients: a producer, and a reader without consumer group.

The Faust app of a stage is in `app`, and the administrator of topics and groups in `admin`: they load libraries that
most commands do without.
"""

from freki.infra.kafka.history import History
from freki.infra.kafka.producer import KafkaProducer
from freki.infra.kafka.reader import Reader
from freki.infra.kafka.records import Record

__all__ = [
    "History",
    "KafkaProducer",
    "Reader",
    "Record",
]
