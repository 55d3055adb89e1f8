"""Kafka clients: a producer, and a reader without consumer group.

The Faust app of a stage is in `app`, and the administrator of topics and groups in `admin`: they load libraries that
most commands do without.
"""

from freki.client.kafka import Record
from freki.infra.kafka.history import History
from freki.infra.kafka.producer import KafkaProducer
from freki.infra.kafka.reader import Reader

__all__ = [
    "History",
    "KafkaProducer",
    "Reader",
    "Record",
]
