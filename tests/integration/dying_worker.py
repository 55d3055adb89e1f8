"""A worker that is killed between sending its output and acknowledging its input. Arguments: settings, directory."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from freki.infra.kafka import Producer
from freki.infra.settings import KafkaSettings
from freki.streams.messages import Outgoing
from freki.streams.outbox import Outbox
from freki.streams.topics import Topics
from tests.integration.stages import TRACER, Batch, make_stage, running


async def main(kafka: KafkaSettings, state: Path) -> None:
    topics = Topics.from_settings(
        prefix=kafka.topic_prefix,
        version=kafka.topic_version,
        partitions=kafka.partitions,
        replication=kafka.replication,
        max_message_bytes=kafka.max_message_bytes,
    )
    async with Producer(kafka) as producer:

        async def handle(batch: Batch) -> None:
            outbox = Outbox(producer, TRACER)
            await outbox.send(*(Outgoing(topic=topics.chunks.name, key=one.key, value=b"out") for one in batch))
            os.kill(os.getpid(), signal.SIGKILL)

        async with running(make_stage(kafka, topics, producer, handle, state)):
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(KafkaSettings.model_validate_json(sys.argv[1]), Path(sys.argv[2])))
