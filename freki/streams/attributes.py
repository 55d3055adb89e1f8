"""Names of span attributes, as OpenTelemetry's semantic conventions 1.44.0 have them.

Renamed there now and then, so they stand here once. No attribute holds the text, key or value of a record.
"""

MESSAGING_SYSTEM = "messaging.system"
MESSAGING_OPERATION_NAME = "messaging.operation.name"
MESSAGING_OPERATION_TYPE = "messaging.operation.type"
MESSAGING_DESTINATION_NAME = "messaging.destination.name"
MESSAGING_DESTINATION_PARTITION_ID = "messaging.destination.partition.id"
MESSAGING_CONSUMER_GROUP_NAME = "messaging.consumer.group.name"
MESSAGING_BATCH_MESSAGE_COUNT = "messaging.batch.message_count"
MESSAGING_MESSAGE_BODY_SIZE = "messaging.message.body.size"
MESSAGING_KAFKA_OFFSET = "messaging.kafka.offset"
MESSAGING_KAFKA_MESSAGE_TOMBSTONE = "messaging.kafka.message.tombstone"
ERROR_TYPE = "error.type"

FREKI_STAGE = "freki.stage"
FREKI_ITEMS = "freki.items"
