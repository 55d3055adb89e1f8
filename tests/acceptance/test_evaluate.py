"""`freki eval` as people type it: from a set on disk to figures, a report and a JSON."""

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import freki_command, freki_process, publish, upsert

XQUAD = Path(__file__).parents[3] / "shared" / "data" / "ir" / "xquad-de"

TEXTS = {
    "urlaub": ("Urlaub", "Der Urlaub ist bei der Leitung zu beantragen."),
    "reise": ("Dienstreisen", "Die Bahnfahrt wird nach der Reise erstattet."),
    "kantine": ("Kantine", "Die Kantine öffnet um elf Uhr und schließt um zwei."),
    "schluessel": ("Schlüssel", "Den Schlüssel für das Archiv verwahrt der Hausmeister."),
}
QUESTIONS = {
    "q1": ("Wer entscheidet über den Urlaub?", "urlaub"),
    "q2": ("Wann öffnet die Kantine?", "kantine"),
    "q3": ("Wo bekomme ich den Schlüssel für das Archiv?", "schluessel"),
}


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    home = tmp_path / "tiny"
    home.mkdir()
    # No other test has these documents, so that they are not indexed yet.
    place = secrets.token_hex(4)
    corpus = [{"_id": name, "title": title, "text": f"{text} {place}"} for name, (title, text) in TEXTS.items()]
    queries = [{"_id": name, "text": text} for name, (text, _) in QUESTIONS.items()]
    for file, entries in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
        (home / file).write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    judgements = "".join(f"{name}\t{document}\t1\n" for name, (_, document) in QUESTIONS.items())
    (home / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judgements}", encoding="utf-8")
    return home


def held(out: Path) -> tuple[dict[str, Any], str, Path]:
    """Read what the latest evaluation wrote: JSON, page, and where the JSON is."""
    data = max(out.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return json.loads(data.read_text(encoding="utf-8")), data.with_suffix(".html").read_text(encoding="utf-8"), data


async def test_two_configurations_are_compared_on_what_runs(freki: Freki, beir: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    code, printed = await freki_process(
        freki, "eval", str(beir), "--running", "--a", "alpha=1", "--b", "fusion=rrf", "--out", str(out)
    )

    assert code == 0, printed
    assert "4 documents, 4 of them indexed now" in printed
    data, page, _ = held(out)
    means = data["summary"]["tiny"]["fusion=rrf"]
    # Scores depend on the words of all tenants of what runs: which hits pass the threshold is not told here.
    means.pop("false positives", None)
    assert {name: mean["value"] for name, mean in means.items()} == {
        "nDCG@10": 1.0,
        "MRR": 1.0,
        "Recall@10": 1.0,
        "Recall@100": 1.0,
        "failed@20": 0.0,
        "empty answers": 0.0,
    }
    assert list(data["summary"]["tiny"]) == ["alpha=1.0", "fusion=rrf"]
    assert data["made_with"]["embedder"].startswith("multilingual-e5-small")
    assert all(text in page for text in ("alpha=1.0", "fusion=rrf", "<svg"))


async def test_a_later_evaluation_embeds_nothing_again_and_is_compared_with_the_earlier(
    freki: Freki, beir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    await freki_command(freki, "eval", str(beir), "--running", "--out", str(out))
    _, _, earlier = held(out)

    code, printed = await freki_command(
        freki,
        *("eval", str(beir), "--running", "--queries", "2"),
        *("--against", str(earlier), "--b", "alpha=0.2", "--out", str(tmp_path / "again")),
    )

    assert code == 0, printed
    assert "4 documents, indexed until" in printed
    first, second = held(tmp_path / "again")[0]["sets"][0]["runs"]
    assert first["title"].startswith("as set, at ")
    assert [len(run["answers"]) for run in (first, second)] == [2, 2]


async def test_gold_questions_without_a_corpus_are_asked_of_what_is_indexed(
    freki: Freki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = f"gold-{secrets.token_hex(4)}"
    monkeypatch.setenv("FREKI_TENANT", tenant)
    await publish(freki, upsert(tenant, "urlaub.md", "# Urlaub\n\nDer Urlaub ist bei der Leitung zu beantragen."))
    gold = tmp_path / "fragen.yaml"
    gold.write_text(
        "- question: Wer entscheidet über den Urlaub?\n"
        "  expected_documents: [urlaub.md]\n"
        "  expected_spans: ['bei der LEITUNG zu  beantragen']\n"
        "  expected_facts: [Leitung, Betriebsrat]\n",
        encoding="utf-8",
    )

    code, printed = await freki_command(freki, "eval", str(gold), "--out", str(tmp_path / "out"))

    assert code == 0, printed
    data, page, _ = held(tmp_path / "out")
    assert "Wer entscheidet über den Urlaub?" in page
    means = data["summary"]["fragen"]["as set"]
    assert [means[name]["value"] for name in ("nDCG@10", "spans quoted", "facts found")] == [1.0, 1.0, 0.5]


async def test_a_stack_of_its_own_leaves_the_running_one_alone(
    freki: Freki, beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FREKI_LOCAL__STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("FREKI_LOCAL__SINGLE_WORKER", "true")
    # The evaluation is no tenant of the running stack, and its folders are no part of the corpus.
    watched = json.dumps([{"path": str(beir)}])
    limits = {"FREKI_LIMITS__DOCUMENTS": "1", "FREKI_LIMITS__QUERIES_PER_MINUTE": "1", "FREKI_FOLDERS": watched}

    code, printed = await freki_process(
        freki, "eval", str(beir), "--queries", "1", "--out", str(tmp_path / "out"), **limits
    )
    again, printed_again = await freki_process(freki, "eval", str(beir), "--out", str(tmp_path / "out"))
    beside, printed_beside = await freki_process(freki, "eval", str(beir), "--running", "--out", str(tmp_path / "out"))

    assert (code, again, beside) == (0, 0, 0), printed + printed_again + printed_beside
    assert "4 documents, 4 of them indexed now" in printed
    assert "limit:" not in printed
    assert "4 documents, indexed until" in printed_again
    assert "4 documents, 4 of them indexed now" in printed_beside
    assert [path.name[:5] for path in (tmp_path / "state" / "evaluation").iterdir()] == ["eval-"]
    assert not list((tmp_path / "state" / "evaluation").glob("*/logs/watch*"))


async def test_options_are_tuned_on_what_runs(freki: Freki, beir: Path, tmp_path: Path) -> None:
    out, report = tmp_path / "out", tmp_path / "docs" / "tuning.md"
    report.parent.mkdir()

    code, printed = await freki_command(
        freki,
        *("tune", str(beir), "--running", "--folds", "3", "--out", str(out), "--report", str(report)),
        *("--turn", "alpha=0.3", "--turn", "keyword_alpha=0.5", "--turn", "rerank_candidates=0"),
    )

    assert code == 0, printed
    data = json.loads(next(out.glob("*.json")).read_text(encoding="utf-8"))
    assert [step["option"] for step in data["steps"]][:3] == ["alpha", "keyword_alpha", "rerank_candidates"]
    assert [tried["figures"]["nDCG@10"] for tried in data["steps"][0]["values"]] == [1.0, 1.0]
    assert data["steps"][1]["shortened"]
    assert data["sets"][0]["notes"] == ["4 documents, 4 of them indexed now"]
    told = [f"{name}={value}" for name, value in data["settings"].items()] or ["keep the settings"]
    assert all(line in printed for line in told)
    assert "![Gain against cost of every value](tuning.svg)" in report.read_text(encoding="utf-8")
    assert report.with_suffix(".svg").read_text(encoding="utf-8").startswith("<svg")


async def test_steps_are_left_out_one_at_a_time_on_what_runs(freki: Freki, beir: Path, tmp_path: Path) -> None:
    out, report = tmp_path / "out", tmp_path / "steps.md"

    code, printed = await freki_command(
        freki,
        *("ablate", str(beir), "--running", "--queries", "2", "--timed", "1", "--also", "fusion=zscore"),
        *("--out", str(out), "--report", str(report)),
    )

    assert code == 0, printed
    (one,) = json.loads(next(out.glob("*.json")).read_text(encoding="utf-8"))["sets"]
    titles = [row["title"] for row in one["rows"]]
    assert (titles[0], titles[-2:]) == ("as set", ["all on", "fusion=zscore"])
    assert {"without reranking", "hybrid search alone", "dense search alone", "BM25 alone"} <= set(titles)
    assert all(row["means"]["nDCG@10"]["questions"] == 2 and row["cost"]["pairs"] == 1 for row in one["rows"])
    assert not [row["title"] for row in one["rows"] if row["means"]["failed@20"]["value"]]
    assert one["notes"][:2] == ["4 documents, 4 of them indexed now", "2 of 3 questions were asked"]
    assert "none is shown to gain" in " ".join(printed.split())
    assert "| without reranking | 1.000 |" in report.read_text(encoding="utf-8")


@pytest.mark.skipif(not XQUAD.is_dir(), reason="the collection is not there")
async def test_german_questions_find_their_paragraph(freki: Freki, tmp_path: Path) -> None:
    code, printed = await freki_command(
        freki, "eval", str(XQUAD), "--running", "--queries", "40", "--out", str(tmp_path / "out")
    )

    assert code == 0, printed
    means = held(tmp_path / "out")[0]["summary"]["xquad-de"]["as set"]
    assert means["nDCG@10"]["value"] > 0.9
    assert means["Recall@100"]["value"] == 1.0
