"""Membership in consumer groups of the local broker, which does not always elect another leader where one leaves."""

from contextlib import suppress
from typing import Any

import structlog
from aiokafka.client import ConnectionGroup
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import JoinGroupRequest

_log = structlog.get_logger(__name__)


class LocalMembership:
    """Changes how a consumer of aiokafka joins and leaves its group.

    The broker forgets a leader that leaves while all have their partitions, or whose session expires. One that leaves
    while others come or go remains the leader of a group that it is no member of: all others wait for it.
    """

    def __init__(self, consumer: Any) -> None:  # noqa: ANN401 - aiokafka is untyped
        """Change a started consumer that has a group."""
        self._consumer = consumer
        self._coordinator = consumer._coordinator  # noqa: SLF001
        self._send_request = self._coordinator._send_req  # noqa: SLF001
        self._leave_group = self._coordinator._maybe_leave_group  # noqa: SLF001
        self._coordinator._send_req = self.send  # noqa: SLF001
        self._coordinator._maybe_leave_group = self.leave  # noqa: SLF001

    async def leave(self) -> None:
        """Leave the group, also in its generation 0."""
        if self._coordinator.member_id:
            # aiokafka takes it for none, but it is the first one here. Until another member joins, the broker keeps one
            # that has not left.
            self._coordinator.generation = max(1, self._coordinator.generation)
        await self._leave_group()

    async def send(self, request: Any) -> Any:  # noqa: ANN401
        """Send a request of the group's protocol and return the answer; join a group whose leader is a member of it."""
        answer = await self._send_request(request)
        if not isinstance(request, JoinGroupRequest) or answer.leader_id in {"", answer.member_id}:
            return answer
        if not await self._has_left(answer.leader_id):
            return answer
        _log.warning("the leader has left the group: electing another", group=self._coordinator.group_id)
        with suppress(KafkaError):
            await self._leave_as(answer.leader_id)
        return await self._send_request(request)

    async def _has_left(self, member_id: str) -> bool:
        client, coordinator = self._consumer._client, self._coordinator  # noqa: SLF001
        request = DescribeGroupsRequest([coordinator.group_id])
        answer = await client.send(coordinator.coordinator_id, request, group=ConnectionGroup.COORDINATION)
        [group] = answer.groups
        members = {member[0] for member in group[5]}
        # An answer that does not name this member is of another moment, or of no group.
        return coordinator.member_id in members and member_id not in members

    async def _leave_as(self, leader_id: str) -> None:
        """Join as the leader, which completes the group by itself, and leave: then the broker forgets it."""
        coordinator = self._coordinator
        own = coordinator.member_id, coordinator.generation
        coordinator.member_id = leader_id
        try:
            await CoordinatorGroupRebalance(
                coordinator,
                coordinator.group_id,
                coordinator.coordinator_id,
                self._consumer._subscription.subscription,  # noqa: SLF001
                coordinator._assignors,  # noqa: SLF001
                coordinator._session_timeout_ms,  # noqa: SLF001
                coordinator._retry_backoff_ms,  # noqa: SLF001
            ).perform_group_join()
            await self.leave()
        finally:
            coordinator.member_id, coordinator.generation = own
