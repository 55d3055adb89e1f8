"""What the files of a model in Hugging Face format say, and whether Freki can run it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from freki.infra.models.descriptions import ModelDescription, ModelKind, Pooling
from freki.infra.models.manifest import CONFIG, TOKENIZER, describe_hub_files, read_json
from freki.schemas.errors import Misconfigured

_DECODERS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""Ends of the names of architectures with a decoder."""
_CLASSIFIER = "ForSequenceClassification"
_HEADS = ("Classification", "Answering", "Choice")
_DEFAULT_LABELS = 2
_LICENCE = re.compile(r"\A---\n(?:.*\n)*?license:[ \t]*['\"]?([^\s'\"]+)")


def read_folder(
    folder: Path,
    *,
    kind: ModelKind | None = None,
    pooling: Pooling | None = None,
    query_prefix: str | None = None,
    passage_prefix: str | None = None,
    max_tokens: int | None = None,
) -> ModelDescription:
    """Return the description of a model in Hugging Face format; arguments replace what the files say.

    Raises Misconfigured, with the fix, for a folder that is no model, and for a model that Freki cannot run.
    """
    _check_files(folder)
    config: Mapping[str, Any] = read_json(folder, CONFIG)
    _check_architecture(folder, config)
    found = describe_hub_files(folder, kind=kind, pooling=pooling)
    if found.kind is ModelKind.RERANKER:
        _check_classifier(folder, config)
        if query_prefix or passage_prefix:
            raise Misconfigured(f"{folder} is a reranker, which has no prefixes: leave out the options")
        # Prompts of sentence-transformers are for embedders.
        query_prefix = passage_prefix = ""
    else:
        _check_head_is_meant(folder, config, kind)
        _check_modules(folder)
    if max_tokens is not None and max_tokens > found.max_tokens:
        raise Misconfigured(f"--max-tokens={max_tokens}: {folder} reads {found.max_tokens} tokens; give at most these")
    changed = {
        "query_prefix": query_prefix,
        "passage_prefix": passage_prefix,
        "max_tokens": max_tokens,
        "licence": _licence(folder),
    }
    return found.model_copy(update={name: value for name, value in changed.items() if value is not None})


def _check_files(folder: Path) -> None:
    if not (folder / CONFIG).is_file():
        raise Misconfigured(f"{folder} is no model in Hugging Face format: {CONFIG} is missing; name a folder with it")
    if not (folder / TOKENIZER).is_file():
        raise Misconfigured(
            f"{folder} has no {TOKENIZER}: write it with AutoTokenizer.from_pretrained(…).save_pretrained(…) of "
            "transformers"
        )
    if not any(folder.glob("*.safetensors")):
        raise Misconfigured(
            f"{folder} has no weights in *.safetensors: write them with AutoModel.from_pretrained(…)"
            ".save_pretrained(…) of transformers"
        )


def _check_architecture(folder: Path, config: Mapping[str, Any]) -> None:
    if config.get("auto_map"):
        raise Misconfigured(
            f"{folder} needs Python code of its repository (auto_map in {CONFIG}, trust_remote_code), which Freki does "
            "not run: take another model, or remove auto_map if transformers has the architecture itself"
        )
    names = config.get("architectures") or []
    if decoders := [name for name in names if name.endswith(_DECODERS)]:
        raise refused_decoder(folder, decoders[0])
    if config.get("is_encoder_decoder") or config.get("is_decoder"):
        raise refused_decoder(folder, ", ".join(names) or str(config.get("model_type")))


def refused_decoder(folder: Path, name: str) -> Misconfigured:
    """Return the error for a model with a decoder."""
    return Misconfigured(
        f"{folder} is a {name}, and Freki exports encoders only: take an encoder such as BERT, XLM-R or ModernBERT, or "
        "run the model as a service (FREKI_MODELS__EMBEDDER=remote)"
    )


def _check_classifier(folder: Path, config: Mapping[str, Any]) -> None:
    names = config.get("architectures") or []
    if not any(name.endswith(_CLASSIFIER) for name in names):
        raise Misconfigured(
            f"{folder} has no head that scores pairs ({', '.join(names) or 'no architecture'} in {CONFIG}, not "
            f"…{_CLASSIFIER}): leave out --kind, or take a cross-encoder"
        )
    if (labels := _labels(config)) != 1:
        raise Misconfigured(
            f"{folder} gives {labels} numbers a pair, and a reranker gives one: take a cross-encoder with one label"
        )


def _check_head_is_meant(folder: Path, config: Mapping[str, Any], kind: ModelKind | None) -> None:
    names: list[str] = config.get("architectures") or []
    if kind is None and any("For" in name and name.endswith(_HEADS) for name in names):
        raise Misconfigured(f"{folder} is a {names[0]}: --kind=embedder takes its encoder alone, without the head")


def _labels(config: Mapping[str, Any]) -> int:
    # transformers leaves out what it takes for the default.
    return len(config.get("id2label") or ()) or int(config.get("num_labels") or _DEFAULT_LABELS)


def _check_modules(folder: Path) -> None:
    """Raise Misconfigured for what sentence-transformers would do and Freki does not."""
    for module in read_json(folder, "modules.json", default=[]):
        if module["type"].endswith("Transformer") and module.get("path"):
            raise Misconfigured(
                f"{folder} keeps its encoder in {module['path']}: move the files of that folder up, beside modules.json"
            )
    if read_json(folder, "1_Pooling/config.json").get("include_prompt") is False:
        raise Misconfigured(
            f"{folder} leaves prefixes out of the mean (include_prompt in 1_Pooling/{CONFIG}), which Freki does not: "
            "take another model"
        )


def _licence(folder: Path) -> str | None:
    """Return the licence that the model's card states."""
    card = folder / "README.md"
    found = _LICENCE.match(card.read_text(encoding="utf-8", errors="replace")) if card.is_file() else None
    return found[1] if found else None
