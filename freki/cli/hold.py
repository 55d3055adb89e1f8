"""`freki hold`: documents that must be kept, for which erasure and retention wait."""

from freki.cli.cases import Kind, case_app
from freki.schemas import AuditKind, Coverage, Hold, TenantId
from freki.streams.wire.cases import read_holds
from freki.streams.wire.from_settings import wall_clock


def _hold(tenant: TenantId, name: str, covers: Coverage, reason: str, by: str) -> Hold:
    return Hold(tenant=tenant, name=name, covers=covers, reason=reason, placed_by=by, placed_at=wall_clock())


hold_app = case_app(
    Kind(
        noun="hold",
        make=_hold,
        read=read_holds,
        audited=AuditKind.HELD,
        set_help="Hold documents by id, by attributes, or all of a tenant. Deletions by producers still count.",
        set_said="{case.name} of {case.tenant} holds {case.covers}",
        end_command="release",
        end_help="End a hold.",
        ended="released",
    ),
    help_text="Documents that must be kept: erasure and retention wait.",
)
