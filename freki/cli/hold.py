"""`freki hold`: documents that must be kept, for which erasure and retention wait."""

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
from freki.schemas import AuditKind, Hold
from freki.streams.wire.cases import read_cases
from freki.streams.wire.from_settings import wall_clock

hold_app = typer.Typer(help="Documents that must be kept: erasure and retention wait.", no_args_is_help=True)


@hold_app.command("set")
@command
async def set_hold(
    name: Name,
    documents: Documents = None,
    *,
    attribute: Attributes = None,
    everything: Everything = False,
    reason: Reason,
    tenant: Tenant = None,
) -> None:
    """Hold documents by id, by attributes, or all of a tenant. Deletions by producers still count."""
    settings = load_settings()
    hold = Hold(
        tenant=whose(settings, tenant),
        name=name,
        covers=coverage_of(documents, attribute, everything=everything),
        reason=reason,
        placed_by=by_user(),
        placed_at=wall_clock(),
    )
    await put(settings, hold, AuditKind.HELD)
    console.print(f"{name} of {hold.tenant} holds {hold.covers}", markup=False)


@hold_app.command("release")
@command
async def release_hold(name: Name, tenant: Tenant = None) -> None:
    """End a hold."""
    settings = load_settings()
    standing = (await read_cases(settings, whose(settings, tenant))).holds
    await end(settings, standing, name, AuditKind.HELD, what="hold")
    console.print(f"{name} of {whose(settings, tenant)} is released", markup=False)


@hold_app.command("list")
@command
async def list_holds(tenant: Tenant = None) -> None:
    """List the holds of a tenant."""
    settings = load_settings()
    standing = (await read_cases(settings, whose(settings, tenant))).holds
    show_cases(standing, nothing=f"tenant {whose(settings, tenant)} has no holds")
