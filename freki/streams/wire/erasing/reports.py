"""The last report of each request for an erasure, from their topic."""

from collections.abc import Sequence

from freki.infra.settings import Settings
from freki.schemas import ErasureReport, TenantId
from freki.streams.privacy.requests import report_key
from freki.streams.privacy.retention import open_reports
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.topic_records import current_values


class TopicReports:
    """Satisfies ReportBook of `streams.privacy`. Reads the whole topic, which has one report for each request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def of(self, tenant: TenantId, request_id: str) -> ErasureReport | None:
        """Return the last report on a request; None where there is none."""
        return (await self._all()).get(report_key(tenant, request_id))

    async def waiting(self) -> Sequence[ErasureReport]:
        """Return the reports on requests of which documents are held."""
        return [report for report in (await self._all()).values() if report.held]

    async def begun(self, prefix: str) -> Sequence[ErasureReport]:
        """Return the reports on erasures that are to go on, of those whose id has a prefix."""
        reports = (await self._all()).values()
        return [report for report in open_reports(reports) if report.request_id.startswith(prefix)]

    async def _all(self) -> dict[bytes, ErasureReport]:
        values = current_values(self._settings, topics_of(self._settings).erasure_reports.name, ErasureReport)
        return {key: report async for key, report in values if report is not None}
