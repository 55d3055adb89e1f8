"""QueryOptions are turned one after the other; what is asked, kept, and said of it."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from itertools import count

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from freki.cli.evaluate.reports.tuning import draw, write_report
from freki.cli.evaluate.show_tuning import lines, show_tuning
from freki.cli.evaluate.tuning_questions import NO_CACHES
from freki.infra.settings.read import read_settings
from freki.operators.errors import InvalidQuery
from freki.operators.evaluate import FIGURES, QuestionKey, TuningVerdict
from freki.schemas import ContextQuery, ContextResult, DocumentId, Fusion, QueryId, RerankerChoice, TenantId, Timestamp
from freki.schemas.evaluation import CorpusDocument, Question
from freki.streams.evaluate.answers import AnswerLog
from freki.streams.evaluate.examine import Examiner
from freki.streams.evaluate.questions import TunedQuestion, keyword_questions, tuned_questions
from freki.streams.evaluate.trials import grid, parse_tuned_option
from freki.streams.evaluate.tuner import Tuner
from freki.streams.evaluate.tuning import TunedSet, Tuning, TuningStep
from tests.unit.evaluations import hit, result
from tests.unit.questions import OPTIONS

NDCG = FIGURES[0]
SLOW_MS, FAST_MS = 50, 10


class Machine:
    """A Freki whose answers are the better the nearer alpha is to what is best, and whose reranker takes time."""

    def __init__(self, *, best_alpha: float = 0.4, needs_reranker: bool = False) -> None:
        self.asked: list[ContextQuery] = []
        self.now_ns = 0
        self._best_alpha = best_alpha
        self._needs_reranker = needs_reranker

    async def ask(self, query: ContextQuery, *, patience_s: float, token: str | None = None) -> ContextResult:  # noqa: ARG002
        assert patience_s > 0
        self.asked.append(query)
        reranked = OPTIONS.with_overrides(query).rerank_candidates > 0
        self.now_ns += (SLOW_MS if reranked else FAST_MS) * 1_000_000
        alpha = OPTIONS.with_overrides(query).alpha_for(keyword=False, exact=False) or 0.0
        worse = round(10 * abs(alpha - self._best_alpha)) + (self._needs_reranker and not reranked)
        # Every third question is easy, whatever is set.
        before = 0 if int(query.text.split()[-1]) % 3 == 0 else min(worse, 7)
        others = [hit(rank, f"x{rank}", 0.5) for rank in range(1, before + 1)]
        return result(query, [*others, hit(before + 1, "a", 0.5)])


def sets(**counts: int) -> dict[QuestionKey, TunedQuestion]:
    return {
        QuestionKey(name, str(number)): TunedQuestion(
            question=Question(
                question_id=str(number), text=f"Wie lautet Antwort {number}", judgements={DocumentId("a"): 1}
            ),
            keyword=False,
            exact=False,
            shortened=False,
        )
        for name, each in counts.items()
        for number in range(each)
    }


class Tuned:
    """A tuner with all that it needs."""

    def __init__(
        self,
        machine: Machine,
        *turns: str,
        posed: Mapping[QuestionKey, TunedQuestion],
        fresh: Mapping[QuestionKey, TunedQuestion],
    ) -> None:
        self.visits: list[str] = []
        self.expected: list[int] = []
        self.advanced = 0
        numbers = count()
        self._examiner = Examiner(
            machine,
            tenant=TenantId("t"),
            defaults=OPTIONS,
            threshold=0.0,
            max_in_flight=2,
            now=lambda: Timestamp(0),
            new_id=lambda: QueryId(str(next(numbers))),
        )
        self.ledger = AnswerLog(
            {**posed, **fresh},
            visit=self._visit,
            defaults=OPTIONS,
            clock_ns=lambda: machine.now_ns,
            advance=self._advance,
        )
        self.tuner = Tuner(
            posed,
            [parse_tuned_option(turn, OPTIONS) for turn in turns],
            ledger=self.ledger,
            figure=NDCG,
            folds=5,
            seed=0,
            expect=lambda coming: self.expected.append(self.advanced + coming),
        )

    async def _visit(self, name: str, *, cold: bool) -> Examiner:
        self.visits.append(f"{name}, cold" if cold else name)
        return self._examiner

    def _advance(self) -> None:
        self.advanced += 1


def tuned(
    machine: Machine, *turns: str, fresh: Mapping[QuestionKey, TunedQuestion] | None = None, **counts: int
) -> Tuned:
    return Tuned(machine, *turns, posed=sets(**counts), fresh=fresh or {})


def kept(steps: Sequence[TuningStep], settings: Mapping[str, str] | None = None) -> Tuning:
    return Tuning(
        format="freki tuning 1",
        made_at="2026-11-22T03:15:56+00:00",
        took_s=90.0,
        made_with={"machine": "<one> | two"},
        figure=NDCG.name,
        folds=5,
        hits=8,
        sets=(TunedSet(name="one-set", questions=40, fresh=0, documents=4, notes=("a note",)),),
        steps=tuple(steps),
        left_out=("keyword_alpha: 3 questions",),
        checks=(),
        remarks=("skipped in 2 of 9 answers",),
        settings=settings or {},
    )


def test_the_present_value_is_among_the_values_and_known() -> None:
    numbers, names = parse_tuned_option("alpha=0.8, 0.3", OPTIONS), parse_tuned_option("fusion=rrf,weighted", OPTIONS)

    assert [value.text for value in numbers.values] == ["alpha=0.3", "alpha=0.6", "alpha=0.8"]
    assert numbers.present.text == "alpha=0.6"
    assert [value.text for value in names.values] == ["fusion=rrf", "fusion=weighted"]
    assert names.present.text == "fusion=weighted"
    assert parse_tuned_option("keyword_alpha=0.5", OPTIONS).present.overrides == {"alpha": 0.4}
    assert parse_tuned_option("candidates=50", OPTIONS).present.text == "candidates=200"
    assert parse_tuned_option("reranker=cosine", OPTIONS).present.overrides == {"reranker": RerankerChoice.AUTO}
    assert parse_tuned_option("levels=1,1+2", OPTIONS).present.overrides == {}
    assert parse_tuned_option("widen=spelling+vector,spelling", OPTIONS).present.text == "widen=none"
    assert parse_tuned_option("per_document=1", OPTIONS).present.text == "per_document=0"
    assert parse_tuned_option("fold_at=0.9", OPTIONS).present.text == "fold_at=1.0"


def test_an_option_that_stands_at_different_values_for_different_questions_is_left_as_set_or_turned_for_some() -> None:
    options = replace(OPTIONS, usual_blend=0.0, exact_blend=4.0)

    assert parse_tuned_option("rerank_blend=0,4", options).present.overrides == {}
    assert parse_tuned_option("usual_blend=2", options).present.text == "usual_blend=0.0"
    assert parse_tuned_option("exact_blend=2", options).present.overrides == {"rerank_blend": 4.0}


def test_every_option_of_the_grid_has_one_present_value_whatever_is_set() -> None:
    for options in (OPTIONS, replace(OPTIONS, fusion=Fusion.RRF, rrf_k=45, hybrid_alpha=0.65, rerank_candidates=500)):
        for turn in grid(options):
            assert turn.values.count(turn.present) == 1
            assert len({value.text for value in turn.values}) == len(turn.values) > 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alpha", "write name=value,value"),
        ("alpha=", "write name=value,value"),
        ("alfa=1", "with a name of"),
        ("alpha=2", "outside 0.0..1.0"),
        ("alpha=0.6", "is the value set"),
    ],
)
def test_values_that_cannot_be_tried_are_refused(text: str, expected: str) -> None:
    with pytest.raises(InvalidQuery, match=expected):
        parse_tuned_option(text, OPTIONS)


def test_what_is_set_for_some_questions_only_is_turned_for_these() -> None:
    turns = [
        parse_tuned_option(f"{name}=0.1", OPTIONS) for name in ("alpha", "keyword_alpha", "usual_blend", "exact_blend")
    ]

    assert [turn.concerns(keyword=False, exact=False) for turn in turns] == [True, False, True, False]
    assert [turn.concerns(keyword=True, exact=True) for turn in turns] == [False, True, False, True]
    assert [turn.concerns(keyword=False, exact=True) for turn in turns] == [False, True, False, True]


def test_questions_are_shortened_to_what_a_search_field_gets() -> None:
    asked = [Question(question_id="1", text="Wer entscheidet über den Urlaub?", judgements={DocumentId("a"): 1})]
    corpus = [
        CorpusDocument(document_id=DocumentId(name), name=None, media_type=None, content=content)
        for name, content in (("a", "Über den Urlaub entscheidet die Leitung."), ("b", b"\xc3\x9cber den Tag"))
    ]

    (short,) = keyword_questions(asked, corpus)

    assert short.question.text == "entscheidet über Urlaub"
    assert (short.keyword, short.shortened, short.question.judgements) == (True, True, {"a": 1})
    assert [each.keyword for each in tuned_questions([*asked, short.question])] == [False, True]


def test_questions_that_name_a_norm_are_known() -> None:
    texts = ("Was sagt § 573c BGB zur Frist?", "Was sagt die Satzung zur Frist?")

    posed = tuned_questions([Question(question_id=text, text=text, judgements=None) for text in texts])

    assert [each.exact for each in posed] == [True, False]


async def test_a_better_value_moves_and_all_together_is_checked_on_questions_that_chose_nothing() -> None:
    fresh = {QuestionKey("one", f"new {place}"): each for place, each in enumerate(sets(one=20).values())}
    run = tuned(Machine(), "alpha=0.2,0.4", one=30, two=20, fresh=fresh)

    (step,) = await run.tuner.tune()
    (check,) = await run.tuner.check(fresh, fresh=True)

    assert (step.choice.value, step.choice.verdict) == ("alpha=0.4", TuningVerdict.BETTER)
    assert {name: value.overrides for name, value in run.tuner.changed.items()} == {"alpha": {"alpha": 0.4}}
    assert [tried.title for tried in step.values] == ["alpha=0.2", "alpha=0.4", "alpha=0.6"]
    best = step.values[1]
    assert set(best.by_set) == {"one", "two"}
    assert best.gain.value == pytest.approx((best.by_set["one"].value + best.by_set["two"].value) / 2)
    assert check.gain.questions == 20
    assert check.gain.value > 0.1


async def test_figures_that_an_answer_as_served_cannot_tell_are_left_out() -> None:
    run = tuned(Machine(), "alpha=0.2,0.4", one=10)

    (step,) = await run.tuner.tune()

    # Recall@100 needs more hits, and false positives a threshold.
    assert {name for tried in step.values for name in tried.figures} == {
        "nDCG@10",
        "MRR",
        "Recall@10",
        "failed@20",
        "empty answers",
    }


async def test_what_costs_time_and_gains_nothing_is_turned_down() -> None:
    run = tuned(Machine(best_alpha=0.6), "rerank_candidates=0", one=30)

    (step,) = await run.tuner.tune()

    assert (step.choice.value, step.choice.verdict) == ("rerank_candidates=0", TuningVerdict.CHEAPER)
    assert step.values[0].cost.difference_ms == FAST_MS - SLOW_MS


async def test_what_gains_is_kept_whatever_it_costs() -> None:
    run = tuned(Machine(best_alpha=0.6, needs_reranker=True), "rerank_candidates=0", one=30)

    (step,) = await run.tuner.tune()

    assert (step.choice.verdict, run.tuner.changed) == (TuningVerdict.AS_GOOD, {})
    assert await run.tuner.check(sets(one=5), fresh=False) == []


async def test_the_next_option_is_tried_with_what_moved_and_the_one_before_it_once_more() -> None:
    machine = Machine(best_alpha=0.4)
    run = tuned(machine, "rerank_candidates=0", "alpha=0.2,0.4", one=30)

    steps = await run.tuner.tune()

    assert [(step.option, step.others, step.again) for step in steps] == [
        ("rerank_candidates", "", False),
        ("alpha", "rerank_candidates=0", False),
        ("rerank_candidates", "alpha=0.4", True),
    ]
    assert set(run.tuner.changed) == {"rerank_candidates", "alpha"}


async def test_nothing_is_asked_twice_but_to_take_its_time() -> None:
    machine = Machine(best_alpha=0.6)
    run = tuned(machine, "alpha=0.5", "mmr_lambda=0.5,0.9", one=10)

    await run.tuner.tune()

    # As set, one other alpha, two other lambdas; and 2 + 3 values timed on 8 questions after one to warm up.
    assert len(machine.asked) == 4 * 10 + (2 + 3) * (8 + 1)
    assert run.advanced == len(machine.asked)
    assert run.expected[0] == len(machine.asked)


async def test_clearly_worse_values_are_asked_only_a_part_of_the_questions() -> None:
    machine = Machine(best_alpha=0.6)
    run = tuned(machine, "alpha=0,0.58", one=90)

    (step,) = await run.tuner.tune()

    worst = step.values[0]
    assert (worst.title, worst.dropped, worst.gain.questions) == ("alpha=0.0", True, 30)
    assert [tried.dropped for tried in step.values[1:]] == [False, False]


async def test_sets_are_visited_in_turn_beginning_with_the_open_one() -> None:
    run = tuned(Machine(best_alpha=0.6), "alpha=0.5", one=60, two=60)

    await run.tuner.tune()

    assert run.visits == ["one", "one, cold", "two", "two, cold", "two", "one"]


async def test_an_option_without_enough_questions_is_left_out_with_the_reason() -> None:
    run = tuned(Machine(), "keyword_alpha=0.5", one=30)

    assert await run.tuner.tune() == []
    assert run.tuner.left_out == ["keyword_alpha: 0 questions are fewer than the 5 folds"]


async def steps_of(*turns: str) -> list[TuningStep]:
    return await Tuned(Machine(), *turns, posed=sets(**{"one-set": 40}), fresh={}).tuner.tune()


async def test_the_terminal_shows_what_stands_what_moves_and_what_to_set() -> None:
    found = kept(await steps_of("alpha=0,0.4", "mmr_lambda=0.5"), {"FREKI_RETRIEVAL__HYBRID_ALPHA": "0.4"})
    console = Console(file=StringIO(), width=80)

    show_tuning(console, found)

    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "alpha=0.4 is better than alpha=0.6" in " ".join(printed.split())
    assert "mmr_lambda=1.0 stays" in " ".join(printed.split())
    assert printed.rstrip().endswith("FREKI_RETRIEVAL__HYBRID_ALPHA=0.4")
    assert "…" not in printed
    assert lines(kept([])) == ["keep the settings"]
    assert lines(kept([], {"candidates": "50"})) == ["candidates=50  # in each query: there is no setting"]


async def test_the_report_is_markdown_with_whole_tables_and_a_picture_of_every_value() -> None:
    found = kept(await steps_of("alpha=0,0.4", "mmr_lambda=0.5"))

    page, plot = write_report(found, plot="tuning.svg"), draw(found)

    tables = [block.splitlines() for block in page.split("\n\n") if block.startswith("|")]
    assert all(len({row.count("|") for row in rows}) == 1 for rows in tables)
    assert "![Gain against cost of every value](tuning.svg)" in page
    drawn = ET.fromstring(plot)  # noqa: S314 - our own
    assert len(drawn.findall(".//{*}circle")) == 5


def test_a_report_without_a_step_says_why() -> None:
    assert "Not tuned: keyword_alpha: 3 questions." in write_report(kept([]), plot="x.svg")
    assert ET.fromstring(draw(kept([]))) is not None  # noqa: S314 - our own


async def test_a_tuning_survives_its_file() -> None:
    files = TypeAdapter(Tuning)
    found = kept(await steps_of("alpha=0.4"))

    assert files.validate_json(files.dump_json(found)) == found


def test_stacks_that_measure_times_start_with_settings_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NO_CACHES.items():
        monkeypatch.setenv(name, value)

    assert read_settings().retrieval.cache_mb == 0
