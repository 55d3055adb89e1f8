"""The local stack on Apache Kafka: its topics outlive it."""

from pathlib import Path

from freki.infra.kafka import KafkaProducer, Reader
from freki.infra.kafka.admin import Admin
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.settings import LocalSettings, Settings
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.provision import apply_topics


async def test_topics_and_records_survive_a_restart_of_the_stack(tmp_path: Path) -> None:
    settings = Settings(local=LocalSettings(state_dir=tmp_path, broker="kafka"))
    topic = topics_of(settings).documents.name

    async with LocalStack(settings, report=lambda _: None, prepare=apply_topics, workers=()) as stack:
        here = settings_for(settings, stack.state)
        async with KafkaProducer(here.kafka) as producer:
            await (await producer.send(topic, key=b"default/a", value=b"kept"))

    async with LocalStack(settings, report=lambda _: None, workers=()) as stack:
        here = settings_for(settings, stack.state)
        assert here.kafka.profile == "kafka"
        async with Admin(here.kafka) as admin:
            (state,) = await admin.describe([topic])
        assert state.partitions == settings.kafka.partitions
        async with Reader(here.kafka, topic, start="earliest") as reader:
            assert [record.value async for record in reader.until_end()] == [b"kept"]
