"""docs/scaling.md: measurements on one machine and their extrapolation to a cluster."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from string import Template
from textwrap import fill

from rich.table import Table

from bench.pipeline import growth
from bench.pipeline.basis import Basis, Origin, basis_of
from bench.pipeline.ground import Figures
from bench.pipeline.plots import lines
from bench.pipeline.sizing import Index, Item, Load, Plan, Prices, plan, sensitivity
from bench.pipeline.write import table_lines

LOADS = (
    Load(chunks=1e8, queries_per_s=50, changes_per_s=100),
    Load(chunks=1e10, queries_per_s=50, changes_per_s=100, searched_share=1 / 16),
    Load(chunks=1e10, queries_per_s=50, changes_per_s=100),
)
DRAWN_SIZES = (1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9, 3e9, 1e10)
SHOWN_SENSITIVE = 8
TEMPLATE = Path(__file__).with_name("scaling.template.md")


def plan_table(found: Plan, prices: Prices, shown: Sequence[Item] = ()) -> Table:
    """Return a plan as a table. shown: items of an earlier plan, omitted where equal."""
    load = found.load
    table = Table(
        title=f"{found.index}: {load.chunks:,.0f} chunks, {_asked(load)}",
        caption=f"{found.partitions} partitions per topic; {found.collections} collection(s) of chunks; filling takes "
        f"{found.fill_core_hours:,.0f} core-hours once, {found.fill_core_hours * prices.vcpu_hour:,.0f} €. "
        + "".join(f"{note}. " for note in found.notes),
    )
    for column in ("what", "number", "each", "why", "€/month"):
        table.add_column(column, justify="right" if column in {"number", "€/month"} else "left")
    for item in found.items:
        if item in shown:
            continue
        shape = item.shape
        disk = f", {shape.nvme_tb:g} TB NVMe" if shape.nvme_tb else ""
        each = f"{shape.vcpu:g} vCPU, {shape.gib:g} GiB{disk}" if shape.vcpu else "–"
        table.add_row(item.name, f"{item.count:,}", each, item.because, f"{item.euros(prices):,.0f}")
    if any(item in shown for item in found.items):
        table.add_row("all others", "", "", "as in the first plan", "")
    table.add_row("together", "", "", f"prices of {prices.as_of}, assumed", f"{found.euros(prices):,.0f}")
    return table


def _asked(load: Load) -> str:
    return f"{load.queries_per_s:g} queries/s over {_searched(load)} of the index, {load.changes_per_s:g} changes/s"


def _searched(load: Load) -> str:
    return "all" if load.searched_share == 1 else f"1/{1 / load.searched_share:.0f}"


def write(found: Figures, prices: Prices, page: Path) -> list[Path]:
    """Write the page, its figures as JSON beside it, and its pictures into `images/`; return all paths."""
    images = page.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    basis = basis_of(found)
    drawn = [*growth.draw(found["measurements"]["growth"]["figures"], images), draw_plans(basis, prices, images)]
    page.write_text(text_of(found, basis, prices, drawn), encoding="utf-8")
    kept = page.with_suffix(".json")
    kept.write_text(json.dumps(_kept(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [page, kept, *drawn]


def _kept(found: Figures) -> Figures:
    """Return the figures without those that plans do not need: other measurements, and single probes."""
    measurements = {name: each for name, each in found["measurements"].items() if name in {"growth", "freshness"}}
    if "freshness" in measurements:
        figures = measurements["freshness"]["figures"]
        scenarios = [
            {key: value for key, value in each.items() if key not in {"edits", "deletions"}}
            for each in figures["scenarios"]
        ]
        measurements["freshness"] = {**measurements["freshness"], "figures": {**figures, "scenarios": scenarios}}
    return {"machine": found["machine"], "measurements": measurements}


def draw_plans(basis: Basis, prices: Prices, folder: Path) -> Path:
    """Draw euros per month by chunks and type of index, searching all of it or a sixteenth."""

    def euros(index: Index, chunks: float, share: float) -> float:
        return plan(replace(LOADS[0], chunks=chunks, searched_share=share), index, basis).euros(prices)

    parts = {"": 1.0, ", 1/16 searched": 1 / 16}
    series = {
        f"{index}{name}": [(chunks, euros(index, chunks, share)) for chunks in DRAWN_SIZES]
        for index in Index
        for name, share in parts.items()
    }
    return lines(
        folder / "scaling-euros.png",
        series,
        title=f"Extrapolated: {LOADS[0].queries_per_s:g} queries/s, {LOADS[0].changes_per_s:g} changes/s",
        x="chunks",
        y="€ per month",
        logarithmic=(True, True),
        dashed=[name for name in series if name.endswith("searched")],
    )


def text_of(found: Figures, basis: Basis, prices: Prices, drawn: Sequence[Path]) -> str:
    """Return the page: the template with the figures."""
    figures = found["measurements"]["growth"]["figures"]
    times, bytes_, euros = (f"images/{path.name}" for path in drawn)
    first, *others = (_cheapest(load, basis, prices) for load in LOADS)
    plans = [plan_table(first, prices), *(plan_table(each, prices, first.items) for each in others)]
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        machine=_machine(found["machine"], found["measurements"]["growth"]),
        grows="\n".join(fill(f"- {each}", 120, subsequent_indent="  ") for each in _what_grows(figures)),
        measured=_lines(*growth.tables(figures)),
        times=times,
        bytes=bytes_,
        summary=_lines(_summary(basis, prices)),
        euros=euros,
        plans=_lines(*plans),
        sensitive=_lines(_sensitive(basis, prices)),
        numbers=_lines(_numbers(basis)),
        prices=_lines(_prices(prices)),
    )


def _lines(*tables: Table) -> str:
    return "\n\n".join("\n".join(table_lines(table)) for table in tables)


def _machine(about: Figures, measured: Figures) -> str:
    """Return the origin of the figures and their `remark`."""
    dirty = " with changes that are not committed" if about["dirty"] else ""
    quick = "**Quick run: the figures only show that everything works.**" if measured["run"]["quick"] else ""
    where = (
        f"{measured['began_at']}, commit {about['commit']}{dirty}, {about['processor']}, {about['cores']} cores, "
        f"{about['memory_gib']} GiB; documents: {measured['run']['documents']}."
    )
    return "\n\n".join(fill(each, 120) for each in (where, quick, measured.get("remark", "")) if each)


def _what_grows(figures: Figures) -> Iterator[str]:
    """Yield sentences on the growth of costs."""
    runs = {(run["embed_workers"], run["size"]): run for run in figures["pipeline"]}
    small, large, shared = min(runs), max(key for key in runs if key[0] == 1), max(runs)
    before, after = (runs[key]["embed_cpu_us_per_token"] for key in (small, large))
    yield (
        f"CPU of the embed worker, nearly all of it the model's: {before:.0f} µs/token up to {small[1]:,} chunks, "
        f"{after:.0f} up to {large[1]:,} ({after / before:.2f} times)."
    )
    one, more = (runs[key]["chunks_per_s"] for key in (large, shared))
    yield (
        f"Throughput: {one:.0f} chunks/s with one embed worker, {more:.0f} with {shared[0]} that share the cores. "
        "Workers on separate machines share the partitions; not measured."
    )


def _cheapest(load: Load, basis: Basis, prices: Prices) -> Plan:
    return min((plan(load, index, basis) for index in Index), key=lambda found: found.euros(prices))


def _summary(basis: Basis, prices: Prices) -> Table:
    rates = f"{LOADS[0].queries_per_s:g} queries/s and {LOADS[0].changes_per_s:g} changes/s"
    table = Table(title="Plans", caption=f"All with {rates}. The cheapest index of each load is shown in full below.")
    columns = ("chunks", "searched", "index", "query nodes", "embed workers", "partitions")
    for column in (*columns, "object store TB", "Kafka TB", "€/month"):
        table.add_column(column, justify="left" if column in {"searched", "index"} else "right")
    for load in LOADS:
        for index in Index:
            found = plan(load, index, basis)
            items = {item.name: item for item in found.items}
            table.add_row(
                *(f"{load.chunks:,.0f}", _searched(load), index),
                *(f"{items[name].count:,}" for name in ("Milvus query nodes", "embed workers")),
                *(f"{found.partitions:,}", f"{items['object store'].object_tb:,.1f}"),
                *(f"{items['Kafka brokers'].block_tb:,.1f}", f"{found.euros(prices):,.0f}"),
            )
    return table


def _sensitive(basis: Basis, prices: Prices) -> Table:
    load = LOADS[1]
    index = _cheapest(load, basis, prices).index
    origins = dict(basis.known())
    table = Table(
        title=f"Euros per month of the second load with {index} if one number is halved or doubled",
        caption="The largest effects only. Measure assumed numbers high in this list first.",
    )
    for column in ("number", "origin", "value", "halved", "doubled"):
        table.add_column(column, justify="left" if column in {"number", "origin"} else "right")
    for each in sensitivity(load, index, basis, prices)[:SHOWN_SENSITIVE]:
        known = origins[each.name]
        table.add_row(each.name, known.origin, f"{known.value:.4g}", f"{each.halved:,.0f}", f"{each.doubled:,.0f}")
    return table


def _numbers(basis: Basis) -> Table:
    table = Table(title="Numbers")
    for column in ("number", "value", "unit", "origin", "source or reason"):
        table.add_column(column, justify="right" if column == "value" else "left")
    order = list(Origin)
    for name, known in sorted(basis.known(), key=lambda each: order.index(each[1].origin)):
        table.add_row(name, f"{known.value:.4g}", known.unit, known.origin, known.source)
    return table


def _prices(prices: Prices) -> Table:
    table = Table(title=f"Prices in euros, assumed, {prices.as_of}")
    table.add_column("price")
    table.add_column("€", justify="right")
    for name, value in asdict(prices).items():
        if name != "as_of":
            table.add_row(name, f"{value:g}")
    return table
