"""Kafka clients: the Faust app of a stage, a producer, a reader without consumer group, and the admin client."""

from freki.infra.kafka.admin import Admin, Declared, PartitionLag, TopicState
from freki.infra.kafka.app import crash_of, holds, look_behind, make_app, on_lost, on_revoked
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
    "crash_of",
    "holds",
    "look_behind",
    "make_app",
    "on_lost",
    "on_revoked",
]
