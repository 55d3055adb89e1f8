"""Assembly of the page."""

from datetime import datetime
from html import escape
from importlib.resources import files
from string import Template

from freki.cli.evaluate.reports.evaluation.figures import (
    breakdown_plot,
    figure_plot,
    figure_table,
    place_plot,
    table_row,
    tone,
)
from freki.cli.evaluate.reports.evaluation.questions import change_plot, changed_questions, worst_questions
from freki.cli.evaluate.show_evaluation import BREAKDOWNS, NAMES, verdict
from freki.cli.words import counted
from freki.operators.evaluate import Figure
from freki.streams.evaluate.examine import DEADLINE_MS, DEPTH
from freki.streams.evaluate.result import Evaluation, Run, SetResult, headline


def render(evaluation: Evaluation) -> str:
    """Return the page as HTML."""
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    made_at = datetime.fromisoformat(evaluation.made_at)
    made_with = [
        table_row([escape(name), f"<code>{escape(value)}</code>"]) for name, value in evaluation.made_with.items()
    ]
    return template.substitute(
        title=escape(f"Retrieval on {', '.join(result.name for result in evaluation.sets)}"),
        subtitle=f"{made_at:%d %B %Y, %H:%M} UTC, took {evaluation.took_s:.0f} s",
        sets="".join(map(_set, evaluation.sets)),
        depth=DEPTH,
        deadline_s=DEADLINE_MS // 1000,
        made_with="".join(made_with),
    )


def _set(result: SetResult) -> str:
    figure = headline(result.runs)
    notes = "".join(f"<li>{escape(note)}</li>" for note in (f"asked of {result.asked_of}", *result.notes))
    return "".join(
        [
            f"<h2>{escape(result.name)}</h2>",
            f'<p class="soft">{counted(len(result.runs[-1].answers), "question")}</p>',
            f'<ul class="plain">{"".join(map(_run, NAMES, result.runs))}</ul>',
            f'<p class="verdict {tone(result)}">{escape(verdict(result))}</p>',
            _card("", figure_table(result)),
            _beside(
                _card("Figures with 95 % intervals", figure_plot(result)),
                _card("Place of the first relevant document, % of questions", place_plot(result)),
            ),
            *(_by_question(result, figure) if figure else ()),
            f'<ul class="plain soft">{notes}</ul>',
        ]
    )


def _run(name: str, run: Run) -> str:
    remarks = "".join(f'<br><span class="soft">{escape(remark)}</span>' for remark in run.remarks)
    return f'<li><span class="key {name}">{name}</span>{escape(run.title)}{remarks}</li>'


def _by_question(result: SetResult, figure: Figure) -> list[str]:
    groups = _beside(*(_card(f"{figure.name} by {title}", breakdown_plot(result, title)) for title in BREAKDOWNS))
    if len(result.runs) == 1:
        return [groups, _card(f"Questions that went worst, by {figure.name}", worst_questions(result, figure))]
    return [
        groups,
        _card(f"{figure.name} of each question, B − A, in falling order", change_plot(result, figure)),
        _card("Questions that changed most", changed_questions(result)),
    ]


def _card(title: str, content: str) -> str:
    """Return content as a card; empty without content."""
    if not content:
        return ""
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    return f'<div class="card">{heading}{content}</div>'


def _beside(*cards: str) -> str:
    return f'<div class="two">{"".join(cards)}</div>'
