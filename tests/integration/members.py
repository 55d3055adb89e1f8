"""Members of a consumer group that send single requests of its protocol, for states of a group that are rare."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import GroupCoordinatorNotAvailableError, MemberIdRequired
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from freki.infra.kafka.connection import PROFILES, client_options
from freki.infra.settings import KafkaSettings
from tests.integration.stages import PATIENCE_S

PROTOCOL, METADATA = "faust", b""


class Members:
    """Members of one group, at its coordinator."""

    def __init__(self, kafka: KafkaSettings, client: AIOKafkaClient, node: int, group: str) -> None:
        self._timeout_ms = int(PROFILES[kafka.profile].session_timeout_s * 1000)
        self._client, self._node, self._group = client, node, group

    async def join(self) -> str:
        """Join a group without members, and lead it."""
        named = await self._joined("")
        assert named.error_code == MemberIdRequired.errno
        member = str(named.member_id)
        answer = await self._joined(member)
        assert answer.leader_id == member
        await self._send(SyncGroupRequest(self._group, answer.generation_id, member, None, [(member, b"")]))
        return member

    async def leave_amid_a_join(self, member: str) -> None:
        """Leave once another member begins to join."""
        async with asyncio.timeout(PATIENCE_S):
            while len(await self._ids()) < 2:  # noqa: ASYNC110 - only the broker knows
                await asyncio.sleep(0.02)
        await self.leave(member)

    async def _ids(self) -> list[str]:
        answer = await self._send(DescribeGroupsRequest([self._group]))
        [group] = answer.groups
        return [member[0] for member in group[5]]

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
        node = await _coordinator(client, group)
        await client.ready(node, group=ConnectionGroup.COORDINATION)
        yield Members(kafka, client, node, group)
    finally:
        await client.close()


async def _coordinator(client: AIOKafkaClient, group: str) -> int:
    """Look until the broker has made the topic of offsets, which it does for its first group."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(GroupCoordinatorNotAvailableError):
                return int(await client.coordinator_lookup(CoordinationType.GROUP, group))
            await asyncio.sleep(0.1)
