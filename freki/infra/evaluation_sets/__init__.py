"""Evaluation sets on disk.

beir  a directory with corpus, queries and judgements
gold  questions in YAML with expected content of answers
text  reading of files, with line numbers in errors
"""

from pathlib import Path

from freki.infra.evaluation_sets.beir import read_beir
from freki.infra.evaluation_sets.gold import read_gold
from freki.schemas.errors import Misconfigured
from freki.schemas.evaluation import EvaluationSet

__all__ = ["read_set"]


def read_set(path: Path, *, corpus: Path | None = None) -> EvaluationSet:
    """Read a BEIR-like directory, or a YAML file with gold questions; corpus: for YAML files that name none.

    Raises Rejected, with file and line, for missing or invalid data; Misconfigured for a path that is no set.
    """
    if path.is_dir():
        return read_beir(path)
    if path.suffix in {".yaml", ".yml"}:
        return read_gold(path, corpus=corpus)
    if not path.exists():
        raise Misconfigured(f"{path}: No such file or directory")
    raise Misconfigured(f"{path}: a set is a directory with corpus.jsonl, queries.jsonl and qrels.tsv, or a .yaml file")
