"""Mistakes in `freki eval`, `tune` and `ablate` end with one line that names place and fix, before any stack."""

import json
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest
from typer.testing import CliRunner

from freki.cli.evaluate.evaluate import write_results
from freki.cli.main import app
from freki.schemas.errors import Rejected


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a set, one with broken judgements, a JSON file that is no report, and an empty report."""
    for name, score in (("tiny", "1"), ("broken", "yes")):
        home = tmp_path / name
        home.mkdir()
        document = {"_id": "urlaub", "title": "Urlaub", "text": "Der Urlaub ist bei der Leitung zu beantragen."}
        (home / "corpus.jsonl").write_text(json.dumps(document) + "\n", encoding="utf-8")
        question = {"_id": "q1", "text": "Wer entscheidet über den Urlaub?"}
        (home / "queries.jsonl").write_text(json.dumps(question) + "\n", encoding="utf-8")
        (home / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\nq1\turlaub\t{score}\n", encoding="utf-8")
    (tmp_path / "no.json").write_text("{}", encoding="utf-8")
    report = {"format": "freki evaluation 1", "made_at": "", "took_s": 1, "made_with": {"threshold": "0.5"}, "sets": []}
    (tmp_path / "earlier.json").write_text(json.dumps(report), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FREKI_LOCAL__STATE_DIR", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.parametrize(
    ("command", "expected", "code"),
    [
        ("eval broken", "qrels.tsv, line 2: expected a question", 1),
        ("eval nowhere", "nowhere: No such file or directory", 2),
        ("eval tiny/qrels.tsv", "a set is a directory with corpus.jsonl", 2),
        ("eval .", "corpus.jsonl or corpus.jsonl.zst is missing", 2),
        ("eval tiny --a alfa=0.4", "with a name of deadline_ms, top_k", 2),
        ("eval tiny --b alpha=2", "alpha: 2.0 is outside 0.0..1.0", 2),
        ("eval tiny --a alpha=1 --b alpha=1.0", "nothing to compare", 2),
        ("eval tiny --against no.json", "no.json is not a JSON report of `freki eval`", 2),
        ("eval tiny --against earlier.json --threshold 0.7", "counts false positives from 0.5, not 0.7", 2),
        ("eval tiny --against earlier.json", "the earlier evaluation has no set tiny", 2),
        ("eval tiny --threshold nan", "Invalid value for '--threshold'", 2),
        ("eval tiny --threshold 50", "Invalid value for '--threshold'", 2),
        ("eval tiny --corpus nowhere", "Invalid value for '--corpus'", 2),
        ("eval tiny tiny", "another set is also named tiny", 2),
        ("eval tiny --running --fresh", "--fresh needs a separate stack", 2),
        ("tune tiny --turn alpha=0.1 --turn alpha=0.2", "an option is given twice", 2),
        ("tune tiny --figure", "no question has facts found", 2),
        ("ablate tiny --also alfa=0.4", "with a name of deadline_ms, top_k", 2),
        ("ablate tiny --also top_k=8", "'top_k=8' equals the settings", 2),
        ("ablate nowhere", "nowhere: No such file or directory", 2),
        ("tune tiny --report tiny", "tiny is a folder; name a file with --report", 2),
        ("ablate tiny --report tiny/qrels.tsv/a.md", "choose another place with --report", 2),
        ("eval tiny --out /proc", "choose another folder with --out", 2),
        ("ablate tiny --report /proc/a.md", "choose another place with --report", 2),
        ("tune tiny --turn alpha", "write name=value,value", 2),
    ],
)
def test_mistakes_end_with_one_line_that_names_the_place_and_the_fix(command: str, expected: str, code: int) -> None:
    arguments = command.split() + ["facts found"] * command.endswith("--figure")

    done = CliRunner().invoke(app, arguments)

    assert done.exit_code == code, done.output
    assert expected in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_results_that_find_no_room_leave_no_part_of_a_file(folder: Path) -> None:
    limits = getrlimit(RLIMIT_FSIZE)
    out = folder / "results"
    setrlimit(RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(Rejected, match=r"b\.md: File too large; choose another place with --out"):
            write_results({out / "a.json": "{}", out / "b.md": "a" * 100}, options="--out")
    finally:
        setrlimit(RLIMIT_FSIZE, limits)

    assert [each.name for each in out.iterdir()] == ["a.json"]
