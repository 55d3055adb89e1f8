"""`freki models export`: a model of Hugging Face's transformers as a directory that Freki runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from freki.cli.arguments import given_path
from freki.cli.context import command, console, load_settings
from freki.cli.show import building
from freki.infra.models import ModelKind
from freki.infra.models.descriptions import Pooling
from freki.infra.models.deviations import shown
from freki.infra.models.export import ExportedModel, Precision, Request, export_model

MB = 1_000_000


@command
async def models_export(  # noqa: PLR0913 - an option each
    repo: Annotated[
        str, typer.Argument(help="Folder in Hugging Face format, or a repository: intfloat/multilingual-e5-large")
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", parser=given_path, help="Directory to write; new or empty")
    ],
    *,
    precision: Annotated[Precision, typer.Option(help="Of dense layers and embeddings")] = Precision.INT8,
    kind: Annotated[
        ModelKind | None, typer.Option(help="Default: reranker if config.json names a …ForSequenceClassification")
    ] = None,
    pooling: Annotated[Pooling | None, typer.Option(help="Default: by 1_Pooling/config.json, else mean")] = None,
    query_prefix: Annotated[
        str | None, typer.Option(help="Before each query, such as 'query: '; default: the prompt `query` of the model")
    ] = None,
    passage_prefix: Annotated[
        str | None, typer.Option(help="Before each passage; default: the prompt `passage` or `document` of the model")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=8, help="Read fewer tokens than the model could; memory grows with their square")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of the repository")] = None,
) -> None:
    """Write an encoder or a cross-encoder as ONNX into a directory, compared with torch."""
    request = Request(
        source=repo,
        directory=directory,
        revision=revision,
        precision=precision,
        kind=kind,
        pooling=pooling,
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
        max_tokens=max_tokens,
    )
    with building() as progress:
        exported = await export_model(request, load_settings().models, progress)
    for line in _lines(exported, directory.expanduser().absolute()):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _lines(exported: ExportedModel, directory: Path) -> Iterator[str]:
    manifest, worst = exported.manifest, exported.worst
    size, window = f"{exported.size_bytes / MB:.1f} MB", f"reads {manifest.max_tokens} tokens"
    yield f"wrote {directory}: {manifest.kind} {manifest.name}, {manifest.precision}, {size}, {window}"
    measure = "difference of scores" if manifest.kind is ModelKind.RERANKER else "cosine distance"
    yield (
        f"{exported.checks} texts agree with torch: {measure} {exported.mean:.6f} on average, {worst.distance:.6f} for "
        f"{shown(worst.text)}; {exported.tolerance} is allowed"
    )
    yield f"FREKI_MODELS__{manifest.kind.upper()}={directory}"
