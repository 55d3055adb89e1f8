"""Mapping of foreign records to document changes: CloudEvents, and Debezium changes and outbox events."""

from freki.operators.map_envelope.change import Fields, to_change, to_changes, without_overtaken
from freki.operators.map_envelope.cloudevents import read_cloudevent
from freki.operators.map_envelope.debezium import read_change
from freki.operators.map_envelope.envelope import Envelope, Event
from freki.operators.map_envelope.outbox import read_outbox

__all__ = [
    "Envelope",
    "Event",
    "Fields",
    "read_change",
    "read_cloudevent",
    "read_outbox",
    "to_change",
    "to_changes",
    "without_overtaken",
]
