"""Members of a consumer group that send single requests of its protocol, for states of a group that are rare."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import MemberIdRequired
from aiokafka.protocol.group import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from freki.infra.kafka.connection import PROFILES, client_options
from freki.infra.settings import KafkaSettings

PROTOCOL, METADATA = "faust", b""


class Members:
    """Members of one group, at its coordinator."""

    def __init__(self, kafka: KafkaSettings, client: AIOKafkaClient, node: int, group: str) -> None:
        self._timeout_ms = int(PROFILES[kafka.profile].session_timeout_s * 1000)
        self._client, self._node, self._group = client, node, group

    async def begin_to_join(self) -> str:
        """Do the first of the two steps in which a member joins; return its id."""
        answer = await self._joined("")
        assert answer.error_code == MemberIdRequired.errno
        return str(answer.member_id)

    async def join(self) -> str:
        """Join a group without members, and lead it."""
        member = await self.begin_to_join()
        answer = await self._joined(member)
        assert answer.leader_id == member
        await self._send(SyncGroupRequest(self._group, answer.generation_id, member, None, [(member, b"")]))
        return member

    async def leave(self, member: str) -> None:
        answer = await self._send(LeaveGroupRequest(self._group, member))
        assert answer.error_code == 0

    async def _joined(self, member: str) -> Any:
        protocols = [(PROTOCOL, METADATA)]
        return await self._send(
            JoinGroupRequest(self._group, self._timeout_ms, self._timeout_ms, member, None, "consumer", protocols)
        )

    async def _send(self, request: Any) -> Any:
        return await self._client.send(self._node, request, group=ConnectionGroup.COORDINATION)


@asynccontextmanager
async def group_members(kafka: KafkaSettings, group: str) -> AsyncIterator[Members]:
    """Connect to the coordinator of a group, whose members have no heartbeats."""
    client = AIOKafkaClient(**client_options(kafka))
    await client.bootstrap()
    try:
        node = await client.coordinator_lookup(CoordinationType.GROUP, group)
        await client.ready(node, group=ConnectionGroup.COORDINATION)
        yield Members(kafka, client, node, group)
    finally:
        await client.close()
