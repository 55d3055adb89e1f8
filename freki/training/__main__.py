"""Trains late interaction: `python -m freki.training --help`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter

from freki.infra.extras import require
from freki.infra.models.manifest import sha256_of
from freki.infra.settings.read import read_settings
from freki.schemas.errors import Misconfigured
from freki.training import bundle as bundling
from freki.training.cache import ArrayCache
from freki.training.console import console, explained, stage
from freki.training.develop import Fitted, Split, fit
from freki.training.run import Recipe, TrainingRun
from freki.training.thesaurus import ENGLISH_HEAD, GERMAN_HEAD, english, german, packed
from freki.training.train import train_all

RUN, WEIGHTS = "run.json", "weights.json"

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

Kept = Annotated[Path, typer.Option("--cache", help="Folder for what is computed once")]
KEPT = Path("~/.cache/freki/training")


@app.command()
def train(
    *,
    data: Annotated[Path, typer.Option(help="Folder with files NAME-LANGUAGE.jsonl.zst of pairs", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for late_interaction.npz and run.json", show_default=False)],
    passages: Annotated[int, typer.Option(min=100, help="Passages to imitate the teacher on")] = 6000,
    questions: Annotated[int, typer.Option(min=100, help="Questions to imitate the teacher on")] = 8000,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn")] = 7,
    cache: Kept = KEPT,
) -> None:
    """Learn the heads of late interaction from questions and their answers."""
    with explained():
        recipe, models = Recipe(passages=passages, questions=questions, seed=seed), read_settings().models
        run = train_all(data, out, recipe, settings=models, cache=ArrayCache(cache.expanduser()), stage=stage)
        _write(out / RUN, TypeAdapter(TrainingRun).dump_json(run, indent=1))


@app.command()
def weigh(
    sets: Annotated[list[str], typer.Argument(help="BEIR-like folders as FOLDER=N: every N-th query is used")],
    *,
    out: Annotated[Path, typer.Option(help="Folder for weights.json", show_default=False)],
) -> None:
    """Learn the weights of late interaction, and their calibration, from the development split of sets."""
    with explained():
        require("train")
        splits = [_split(each) for each in sets]
        # Before hours of work, not after them.
        out.mkdir(parents=True, exist_ok=True)
        fitted = asyncio.run(fit(splits, read_settings().models, stage))
        _write(out / WEIGHTS, TypeAdapter(Fitted).dump_json(fitted, indent=1))


@app.command()
def bundle(
    directory: Annotated[Path, typer.Argument(help="Folder as sentence-transformers writes it", show_default=False)],
    file: Annotated[Path, typer.Argument(help="The archive, .npz", show_default=False)],
) -> None:
    """Pack a sentence encoder, so that Freki can carry it; prints the hash that the registry names."""
    with explained():
        require("train")
        bundling.bundle(directory, file)
        console.print(f"{file}: sha256 {sha256_of(file)}", soft_wrap=True, highlight=False)


def _split(text: str) -> Split:
    directory, _, step = text.rpartition("=")
    if not directory or not step.isdecimal() or int(step) < 1:
        raise Misconfigured(f"{text}: write FOLDER=N, such as sets/de-dev=4")
    return Split(Path(directory), int(step))


def _write(path: Path, content: bytes) -> None:
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
    with explained():
        out.mkdir(parents=True, exist_ok=True)
        (out / "synonyms_de.txt").write_text(packed(german(openthesaurus), GERMAN_HEAD), "utf-8")
        (out / "synonyms_en.txt").write_text(packed(english(wordnet), ENGLISH_HEAD), "utf-8")


if __name__ == "__main__":
    app()
