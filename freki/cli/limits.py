"""`freki limits`: what tenants use of their limits."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from freki.cli.arguments import not_empty
from freki.cli.context import command, console, fail, load_settings
from freki.cli.rows import AsJson, print_json, whole_table
from freki.infra.settings import LimitSettings
from freki.schemas import TenantId
from freki.schemas.limits import LimitKind, TenantLimits, TenantUse
from freki.streams.limits.changes import count_stock
from freki.streams.limits.usage import MINUTE_MS
from freki.streams.wire.connect import open_index, open_registry
from freki.streams.wire.from_settings import wall_clock
from freki.streams.wire.limits import limits_of_tenant, new_ledger, read_ledger

NEAR = 0.8
"""Share of a limit from which on it is marked."""


@command
async def limits(
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this tenant; again for more. Default: those that settings or changes of the day name",
            callback=not_empty,
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show what each tenant uses of its limits, with changes in flight.

    Days and minutes are those of UTC; queries are those of the current minute.
    """
    settings = load_settings()
    if settings.limits == LimitSettings():
        fail("no tenant has limits: set FREKI_LIMITS__DOCUMENTS and others, or FREKI_LIMITS__TENANTS", code=2)
    ledger, now = new_ledger(settings), wall_clock()
    async with open_registry(settings) as registry:
        await read_ledger(settings, ledger, registry=registry)
    chosen = tenant or sorted({*settings.limits.tenants, *ledger.tenants})
    table = whole_table("tenant", "limit", "used", "most", "share")
    for column in table.columns[2:]:
        column.justify = "right"
    async with open_index(settings) as index:
        for name in map(TenantId, chosen):
            of_tenant = limits_of_tenant(settings.limits, name)
            if of_tenant.of_stock:
                await count_stock(index, name, ledger.of(name))
            use = ledger.of(name).use(at=now, now=now)
            for kind, most, used in _rows(of_tenant, use, queries=ledger.queries_in(name, now // MINUTE_MS)):
                if as_json:
                    print_json({"tenant": name, "limit": kind, "used": used, "most": most})
                else:
                    _add(table, [name, kind], used, most)
    if not as_json:
        console.print(table if table.row_count else "none of these tenants has limits")


def _rows(limits: TenantLimits, use: TenantUse, *, queries: int) -> Iterator[tuple[LimitKind, int, int]]:
    used = (
        (LimitKind.DOCUMENTS, limits.documents, use.documents),
        (LimitKind.CHARACTERS, limits.characters, use.characters),
        (LimitKind.PUBLISHED, limits.published_bytes_per_day, use.published_bytes),
        (LimitKind.TOKENS, limits.embedded_tokens_per_day, use.tokens),
        (LimitKind.QUERIES, limits.queries_per_minute, queries),
    )
    return ((kind, most, amount) for kind, most, amount in used if most is not None)


def _add(table: Table, names: Sequence[str], used: int, most: int) -> None:
    share = used / most if most else 1.0
    style = "red" if share >= 1 else "yellow" if share >= NEAR else ""
    table.add_row(*map(Text, names), f"{used:,}", f"{most:,}", Text(f"{share:.0%}", style=style))
