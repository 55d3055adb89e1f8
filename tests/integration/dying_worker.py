"""A worker that is killed between sending its output and acknowledging its input. Arguments: settings, directory."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from freki.infra.settings import KafkaSettings
from freki.streams.deliver.lanes import Lane
from freki.streams.messages import Outgoing
from tests.integration.stages import Batch, a_world, running


async def main(kafka: KafkaSettings, state: Path) -> None:
    async with a_world(kafka, state) as world:

        async def handle(batch: Batch) -> None:
            for one in batch:
                await world.outbox.send(
                    Outgoing(topic=world.topics.chunks[Lane.REGULAR].name, key=one.key, value=b"first")
                )
            os.kill(os.getpid(), signal.SIGKILL)

        async with running(world.stage(handle)):
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(KafkaSettings.model_validate_json(sys.argv[1]), Path(sys.argv[2])))
