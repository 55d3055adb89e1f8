import io

from rich.console import Console

from freki.cli.bars import EVERY_S, LineProgress, bars


def printed(*moments_s: float) -> list[str]:
    """Move a task on at these moments, and give the lines that were printed."""
    file = io.StringIO()
    lines = bars(Console(file=file, force_terminal=False, width=80))
    assert isinstance(lines, LineProgress)
    task = lines.add_task("asked", total=10)
    for moment in moments_s:
        lines.get_time = lambda moment=moment: moment  # type: ignore[misc]
        lines.advance(task)
    return file.getvalue().splitlines()


def test_without_a_terminal_a_line_tells_now_and_then_how_far_it_is() -> None:
    found = printed(100.0, 101.0, 101.0 + EVERY_S, 102.0 + EVERY_S, 102.0 + 2 * EVERY_S)

    assert [line.partition(",")[0] for line in found] == ["asked: 3 of 10", "asked: 5 of 10"]


def test_what_is_over_soon_prints_nothing() -> None:
    assert printed(100.0, 110.0, 120.0) == []


def test_without_a_terminal_its_end_leaves_no_empty_line() -> None:
    file = io.StringIO()

    with bars(Console(file=file, force_terminal=False)) as lines:
        lines.advance(lines.add_task("asked", total=1))

    assert not file.getvalue()


def test_in_a_terminal_bars_are_drawn() -> None:
    assert not isinstance(bars(Console(file=io.StringIO(), force_terminal=True)), LineProgress)
