"""`freki groups`: groups of users, besides those in their tokens."""

import getpass
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from freki.cli.arguments import not_empty
from freki.cli.context import command, console, fail, load_settings
from freki.cli.rows import AsJson, Rows
from freki.infra.settings import Settings
from freki.operators.validate_query.fields import check_tenant
from freki.schemas import GroupMembership, TenantId
from freki.schemas.avro import Codec
from freki.streams.audit.events import groups_changed
from freki.streams.retrieve.memberships import membership_key, membership_of
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_outbox, open_registry
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.topic_records import current_values, records_of

groups_app = typer.Typer(help="Groups of users, besides those in their tokens.", no_args_is_help=True)

Tenant = Annotated[str | None, typer.Option(help="Tenant of the user; default: FREKI_TENANT", callback=not_empty)]
User = Annotated[str, typer.Argument(help="User as tokens name it", callback=not_empty)]


@groups_app.command("list")
@command
async def list_groups(*, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List the users of a tenant that have groups."""
    settings = load_settings()
    rows = Rows("user", "groups", as_json=as_json)
    for (whose, user), groups in sorted((await _memberships(settings)).items()):
        if whose == (tenant or settings.tenant):
            rows.add({"user": user, "groups": groups})
    rows.end(nothing="no user has groups here; those in tokens are not listed")


@groups_app.command("set")
@command
async def set_groups(
    user: User,
    groups: Annotated[list[str], typer.Argument(help="All groups of the user", callback=not_empty)],
    tenant: Tenant = None,
) -> None:
    """Set the groups of a user; they replace those that were set before."""
    settings = load_settings()
    whose = tenant or settings.tenant
    check_tenant(whose)
    membership = GroupMembership(tenant=TenantId(whose), principal=user, groups=tuple(dict.fromkeys(groups)))
    async with open_registry(settings) as registry:
        value = Codec(GroupMembership, registry=registry).encode(membership)
        await _send(settings, whose, user, value, membership.groups)
    console.print(f"{user} of {whose}: {', '.join(membership.groups)}", markup=False)


@groups_app.command("remove")
@command
async def remove_groups(user: User, tenant: Tenant = None) -> None:
    """Take all groups from a user; those in the user's tokens stay."""
    settings = load_settings()
    whose = tenant or settings.tenant
    if (whose, user) not in await _memberships(settings):
        fail(f"{user} of {whose} has no groups here; `freki groups list` shows who has")
    await _send(settings, whose, user, None, ())
    console.print(f"{user} of {whose}: no groups", markup=False)


async def _send(settings: Settings, tenant: str, user: str, value: bytes | None, groups: Sequence[str]) -> None:
    async with open_outbox(settings) as (outbox, _), open_audit(settings, outbox) as audit:
        if audit is not None:
            before = (await _memberships(settings)).get((tenant, user), ())
            by = f"os:{getpass.getuser()}"
            await audit.record(groups_changed(TenantId(tenant), user, before=before, after=groups, by=by))
        topic = topics_of(settings).groups.name
        key = membership_key(tenant, user)
        await outbox.send(*await records_of(settings, topic, GroupMembership, key, value))


async def _memberships(settings: Settings) -> dict[tuple[str, str], tuple[str, ...]]:
    """Read the groups of all users."""
    found = {}
    async for key, membership in current_values(settings, topics_of(settings).groups.name, GroupMembership):
        if membership is not None:
            with suppress(ValueError):
                found[membership_of(key)] = membership.groups
    return found
