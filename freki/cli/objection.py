"""`freki object`: documents that are kept, but left out of answers."""

import typer

from freki.cli.cases import (
    Attributes,
    Documents,
    Everything,
    Name,
    Reason,
    Tenant,
    by_user,
    coverage_of,
    end,
    put,
    whose,
)
from freki.cli.cases import show as show_cases
from freki.cli.context import command, console, load_settings
from freki.schemas import AuditKind, Objection
from freki.streams.wire.cases import read_cases
from freki.streams.wire.from_settings import wall_clock

object_app = typer.Typer(help="Documents that are kept, but left out of answers.", no_args_is_help=True)


@object_app.command("set")
@command
async def set_objection(
    name: Name,
    documents: Documents = None,
    *,
    attribute: Attributes = None,
    everything: Everything = False,
    reason: Reason,
    tenant: Tenant = None,
) -> None:
    """Leave documents out of answers, within a second: by id, by attributes, or all of a tenant."""
    settings = load_settings()
    objection = Objection(
        tenant=whose(settings, tenant),
        name=name,
        covers=coverage_of(documents, attribute, everything=everything),
        reason=reason,
        recorded_by=by_user(),
        recorded_at=wall_clock(),
    )
    await put(settings, objection, AuditKind.OBJECTED)
    console.print(f"answers to {objection.tenant} leave out {objection.covers}", markup=False)


@object_app.command("lift")
@command
async def lift_objection(name: Name, tenant: Tenant = None) -> None:
    """Lift an objection: answers have the documents again."""
    settings = load_settings()
    standing = (await read_cases(settings, whose(settings, tenant))).objections
    await end(settings, standing, name, AuditKind.OBJECTED, what="objection")
    console.print(f"{name} of {whose(settings, tenant)} is lifted", markup=False)


@object_app.command("list")
@command
async def list_objections(tenant: Tenant = None) -> None:
    """List the objections of a tenant."""
    settings = load_settings()
    standing = (await read_cases(settings, whose(settings, tenant))).objections
    show_cases(standing, nothing=f"tenant {whose(settings, tenant)} has no objections")
