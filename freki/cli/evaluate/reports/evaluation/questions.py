"""Questions with their rankings side by side."""

from collections.abc import Iterable, Sequence
from html import escape

from freki.cli.evaluate.reports.evaluation.plots import differences
from freki.cli.evaluate.show_evaluation import NAMES
from freki.operators.evaluate import FIGURES, Figure, most_changed
from freki.streams.evaluate.result import Answered, KeptRank, SetResult

SHOWN_QUESTIONS = 25


def change_plot(result: SetResult, figure: Figure) -> str:
    """Draw the change of a figure of each question; empty if none changed."""
    name = figure.name
    first, second = (run.by_id for run in result.runs)
    shared = [each for each in first.keys() & second.keys() if name in first[each] and name in second[each]]
    changes = [second[each][name] - first[each][name] for each in shared]
    return differences(changes) if any(changes) else ""


def changed_questions(result: SetResult) -> str:
    """Show the questions that changed most, with both rankings."""
    first, second = (run.by_id for run in result.runs)
    answers = [{answer.question_id: answer for answer in run.answers} for run in result.runs]
    entries = [
        _question(
            result,
            [each[change.question_id] for each in answers],
            f'<b class="{"good" if change.gain > 0 else "bad"}">{change.gain:+.3f}</b>'
            f'<span class="soft">{change.figure}</span> ',
        )
        for change in most_changed(first, second, limit=SHOWN_QUESTIONS)
    ]
    return "".join(entries) or "None changed."


def worst_questions(result: SetResult, figure: Figure) -> str:
    """Show the questions with the worst values of a figure."""
    sign = 1 if figure.higher_is_better else -1
    judged = [answer for answer in result.runs[0].answers if figure.name in answer.figures]
    worst = sorted(judged, key=lambda answer: (sign * answer.figures[figure.name], answer.question_id))
    return "".join(
        _question(result, [answer], f"<b>{answer.figures[figure.name]:.3f}</b>") for answer in worst[:SHOWN_QUESTIONS]
    )


def _question(result: SetResult, answers: Sequence[Answered], value: str) -> str:
    rankings = "".join(
        f'<div><span class="key {name}">{name}</span><span class="soft">{_figures(answer)}</span>'
        f"<ol>{_ranking(result, answer.ranking)}</ol>{_missed(answer)}</div>"
        for name, answer in zip(NAMES, answers, strict=False)
    )
    about = f"{answers[0].question_id} · {answers[0].query_type} · {answers[0].language}"
    return (
        f'<details><summary>{value} {escape(answers[0].text)} <span class="soft">{escape(about)}</span></summary>'
        f'<div class="rankings">{rankings}</div></details>'
    )


def _figures(answer: Answered) -> str:
    named = (figure.name for figure in FIGURES if figure.name in answer.figures)
    return ", ".join(f"{name} {answer.figures[name]:.2f}" for name in named)


def _ranking(result: SetResult, ranking: Iterable[KeptRank]) -> str:
    return "".join(
        f'<li class="{"relevant" if (place.grade or 0) > 0 else ""}">'
        f"{escape(result.titles.get(place.document_id, ''))} "
        f"<small>{escape(place.document_id)} · {place.score:.3f}{_grade(place)}</small></li>"
        for place in ranking
    )


def _grade(place: KeptRank) -> str:
    return "" if place.grade is None else f" · grade {place.grade}"


def _missed(answer: Answered) -> str:
    """List the relevant documents that are not among those shown."""
    shown = {place.document_id for place in answer.ranking}
    missed = [
        f"{escape(name)} {'not found' if place is None else f'at place {place}'}"
        for name, place in answer.relevant.items()
        if name not in shown
    ]
    return f'<p class="soft">Relevant, not among these: {", ".join(missed)}</p>' if missed else ""
