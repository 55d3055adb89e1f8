"""`freki models`: the models that Freki runs."""

import typer

from freki.cli.context import command, console, load_settings
from freki.cli.export_model import models_export
from freki.cli.rows import AsJson, Rows
from freki.cli.show import building
from freki.infra.models import check_models, describe_models, ensure_built

models_app = typer.Typer(help="Models that Freki runs.", no_args_is_help=True)
models_app.command("export")(models_export)


@models_app.command("list")
def models_list(*, as_json: AsJson = False) -> None:
    """List the available models."""
    rows = Rows(
        "model", "kind", "dim", "state", "size_bytes", "licence", as_json=as_json, numbers=("dim", "size_bytes")
    )
    for model in describe_models(load_settings().models):
        row = {
            "model": model.name,
            "kind": model.kind,
            "dim": model.dim,
            "state": model.state,
            "size_bytes": model.size_bytes or None,
            "licence": model.licence,
        }
        rows.add(row, size_bytes=f"{model.size_bytes / 1e6:.0f} MB" if model.size_bytes else "–")
    rows.end(nothing="no models are known")


@models_app.command("build")
@command
async def models_build() -> None:
    """Build the configured models into the cache if they are missing."""
    with building() as progress:
        await ensure_built(load_settings().models, progress)
    console.print("models are built")


@models_app.command("check")
@command
async def models_check() -> None:
    """Run known texts through the configured models and compare the results with expected values."""
    checks = await check_models(load_settings().models)
    for check in checks:
        mark = "[green]ok[/]" if check.ok else "[red]wrong[/]"
        console.print(f"{mark}  {check.name}  {check.tokens_per_s:.0f} tokens/s  {check.message}")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
