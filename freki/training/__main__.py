"""Trains and measures the reranker: `python -m freki.training --help`."""

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter

from freki.infra.models.manifest import sha256_of
from freki.infra.settings.read import read_settings
from freki.schemas.errors import Misconfigured
from freki.training import bundle as bundling
from freki.training.cache import ArrayCache
from freki.training.card import write_card
from freki.training.console import console, explained, stage
from freki.training.figures import Figures
from freki.training.measure import measure_sets
from freki.training.run import Recipe, TrainingRun
from freki.training.thesaurus import ENGLISH_HEAD, GERMAN_HEAD, english, german, packed
from freki.training.train import train_all

RUN, FIGURES = "run.json", "figures.json"

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

Kept = Annotated[Path, typer.Option("--cache", help="Folder for what is computed once")]
KEPT = Path("~/.cache/freki/training")


@app.command()
def train(
    *,
    data: Annotated[Path, typer.Option(help="Folder with files NAME-LANGUAGE.jsonl.zst of pairs", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for run.json and piece_weights.npy", show_default=False)],
    lists: Annotated[int, typer.Option(min=1, help="Questions to learn from, each with its candidates")] = 1200,
    held_out: Annotated[int, typer.Option(min=2, help="Questions to calibrate and to judge by")] = 600,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn")] = 7,
    cache: Kept = KEPT,
) -> None:
    """Learn the reranker's weights from questions and their answers: rarity of words, sums, calibration."""
    with explained():
        _needs("scipy")
        recipe, models = Recipe(lists=lists, held_out=held_out, seed=seed), read_settings().models
        run = train_all(data, out, recipe, settings=models, cache=ArrayCache(cache.expanduser()), stage=stage)
    _write(out / RUN, TypeAdapter(TrainingRun).dump_json(run, indent=1))


@app.command()
def measure(
    sets: Annotated[list[Path], typer.Argument(help="BEIR-like folders", show_default=False)],
    *,
    out: Annotated[Path, typer.Option(help="Folder for figures.json", show_default=False)],
    questions: Annotated[int | None, typer.Option(min=1, help="Ask only so many questions of each set")] = None,
    cache: Kept = KEPT,
) -> None:
    """Measure the reranker as it is served: candidates of hybrid search, in its order and reranked."""
    with explained():
        _needs("ir_measures")
        kept = ArrayCache(cache.expanduser())
        figures = asyncio.run(measure_sets(sets, read_settings().models, kept, stage, most=questions))
    _write(out / FIGURES, TypeAdapter(Figures).dump_json(figures, indent=1))


@app.command()
def card(
    run: Annotated[Path, typer.Argument(help="The run.json of `train`", show_default=False)],
    figures: Annotated[Path, typer.Argument(help="The figures.json of `measure`", show_default=False)],
    out: Annotated[Path, typer.Argument(help="The card, .md; its plot lies beside it", show_default=False)],
) -> None:
    """Write the model's card."""
    write_card(
        out,
        TypeAdapter(TrainingRun).validate_json(run.read_bytes()),
        TypeAdapter(Figures).validate_json(figures.read_bytes()),
    )
    console.print(str(out), soft_wrap=True, highlight=False)


@app.command()
def bundle(
    directory: Annotated[Path, typer.Argument(help="Folder as sentence-transformers writes it", show_default=False)],
    file: Annotated[Path, typer.Argument(help="The archive, .npz", show_default=False)],
) -> None:
    """Pack a sentence encoder, so that Freki can carry it; prints the hash that the registry names."""
    with explained():
        _needs("safetensors")
        bundling.bundle(directory, file)
    console.print(f"{file}: sha256 {sha256_of(file)}", soft_wrap=True, highlight=False)


def _needs(package: str) -> None:
    if find_spec(package) is None:
        raise Misconfigured("the training needs more than Freki itself: pip install 'freki[train]'")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    console.print(str(path), soft_wrap=True, highlight=False)


@app.command()
def thesaurus(
    *,
    openthesaurus: Annotated[Path, typer.Option(help="th_de_DE_v2.dat of the Debian package mythes-de")],
    wordnet: Annotated[Path, typer.Option(help="Folder usr/share/wordnet of the Debian package wordnet-base")],
    out: Annotated[Path, typer.Option(help="Folder for synonyms_de.txt and synonyms_en.txt")],
) -> None:
    """Pack the synonyms that questions are widened with."""
    (out / "synonyms_de.txt").write_text(packed(german(openthesaurus), GERMAN_HEAD), "utf-8")
    (out / "synonyms_en.txt").write_text(packed(english(wordnet), ENGLISH_HEAD), "utf-8")


if __name__ == "__main__":
    app()
