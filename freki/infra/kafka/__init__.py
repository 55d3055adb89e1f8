"""Kafka clients: a producer, a reader without consumer group, and the admin client.

The Faust app of a stage is in `app`, so that what runs no stage need not import Faust.
"""

from freki.infra.kafka.admin import Admin, Declared, PartitionLag, TopicState
from freki.infra.kafka.history import History
from freki.infra.kafka.producer import KafkaProducer
from freki.infra.kafka.reader import Reader
from freki.infra.kafka.records import Position, Record

__all__ = [
    "Admin",
    "Declared",
    "History",
    "KafkaProducer",
    "PartitionLag",
    "Position",
    "Reader",
    "Record",
    "TopicState",
]
