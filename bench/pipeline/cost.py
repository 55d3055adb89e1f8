"""Cost of an index of any size on a Milvus cluster, and its page docs/scaling.md.

python -m bench.pipeline.cost --chunks 1e8 --queries-per-second 50 --changes-per-second 100
python -m bench.pipeline.cost --figures bench-results/latest/figures.json --write docs/scaling.md
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from bench.pipeline.basis import basis_of
from bench.pipeline.ground import Figures
from bench.pipeline.scaling import plan_table, write
from bench.pipeline.sizing import Index, Load, Prices, plan

FIGURES = "docs/scaling.json"
"""Figures from which docs/scaling.md is generated."""


def main() -> None:
    """Print plans, or write docs/scaling.md."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.write is not None:
        for path in write(arguments.figures, arguments.prices, arguments.write):
            Console().print(f"written: {path}")
        return
    load = Load(
        chunks=arguments.chunks,
        queries_per_s=arguments.queries_per_second,
        changes_per_s=arguments.changes_per_second,
        searched_share=arguments.searched_share,
    )
    basis = basis_of(arguments.figures)
    try:
        plans = [plan(load, Index(index), basis) for index in arguments.index or Index]
    except ValueError as error:
        parser.error(str(error))
    for each in plans:
        Console().print(plan_table(each, arguments.prices))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline.cost", description=__doc__)
    parser.add_argument("--chunks", type=float, default=1e8)
    parser.add_argument("--queries-per-second", type=float, default=50.0)
    parser.add_argument("--changes-per-second", type=float, default=100.0)
    parser.add_argument("--searched-share", type=float, default=1.0, help="share of the index searched by one query")
    parser.add_argument("--index", nargs="+", choices=list(Index), help="vector index types (default: all)")
    parser.add_argument(
        "--figures", type=_figures, default=FIGURES, help="figures of a run of `make bench` with growth"
    )
    usual = Prices()
    parser.add_argument(
        "--prices", type=_prices, default=usual, help=f"JSON with other prices: {json.dumps(asdict(usual))}"
    )
    parser.add_argument("--write", type=Path, metavar="docs/scaling.md", help="write the page with these figures")
    return parser


def _figures(path: str) -> Figures:
    found = _read(path)
    try:
        basis_of(found)
    except (LookupError, TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(
            f"{path}: figures of growth are missing or incomplete: run `make bench` with growth, as --only growth"
        ) from error
    return found


def _read(path: str) -> Figures:
    try:
        found: Figures = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from error
    return found


def _prices(path: str) -> Prices:
    try:
        return Prices(**_read(path))
    except TypeError as error:
        raise argparse.ArgumentTypeError(f"{path}: its fields must be those of the default: {error}") from error


if __name__ == "__main__":
    main()
