"""`freki object`: documents that are kept, but left out of answers."""

from freki.cli.cases import Kind, case_app
from freki.schemas import AuditKind, Coverage, Objection, TenantId
from freki.streams.wire.cases import read_objections
from freki.streams.wire.from_settings import wall_clock


def _objection(tenant: TenantId, name: str, covers: Coverage, reason: str, by: str) -> Objection:
    return Objection(tenant=tenant, name=name, covers=covers, reason=reason, recorded_by=by, recorded_at=wall_clock())


object_app = case_app(
    Kind(
        noun="objection",
        make=_objection,
        read=read_objections,
        audited=AuditKind.OBJECTED,
        set_help="Leave documents out of answers, within a second: by id, by attributes, or all of a tenant.",
        set_said="answers to {case.tenant} leave out {case.covers}",
        end_command="lift",
        end_help="Lift an objection: answers have the documents again.",
        ended="lifted",
    ),
    help_text="Documents that are kept, but left out of answers.",
)
