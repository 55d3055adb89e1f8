from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from deploy.check import Prometheus, Row, alerts, main, panels, table

ANSWERS: Mapping[str, list[tuple[dict[str, str], str]]] = {
    "rate(handled[1m])": [({"stage": "embed"}, "2.5"), ({"stage": "chunk"}, "NaN"), ({"stage": "retrieve"}, "12345")],
    "share": [({}, "0.0625")],
    "quantile": [({}, "NaN")],
    "lag > 60": [({"__name__": "lag", "stage": "embed"}, "61")],
    "count(lag)": [({}, "1")],
    "lag > 600": [],
}


class FakePrometheus(httpx.BaseTransport):
    """Knows the expressions above; others select nothing, and `)` is no expression.

    To `login` it answers as a proxy before it may.
    """

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        expression = parse_qs(request.read().decode())["query"][0]
        if expression == ")":
            return httpx.Response(400, json={"status": "error", "error": "parse error"})
        if expression == "login":
            return httpx.Response(200, text="<html>")
        result = [{"metric": labels, "value": [0, value]} for labels, value in ANSWERS.get(expression, [])]
        return httpx.Response(200, json={"status": "success", "data": {"resultType": "vector", "result": result}})


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    with httpx.Client(transport=FakePrometheus(), base_url="http://prometheus") as client:
        yield Prometheus(client)


def board(*expressions: str, unit: str = "short", **defaults: str) -> Mapping[str, Any]:
    targets = [{"expr": expression, "legendFormat": f"q{number}"} for number, expression in enumerate(expressions)]
    panel = {"title": "Panel", "targets": targets, "fieldConfig": {"defaults": {"unit": unit, **defaults}}}
    return {"title": "Board", "panels": [panel]}


def rules(expression: str) -> Mapping[str, Any]:
    return {"groups": [{"rules": [{"alert": "Late", "expr": expression, "labels": {"severity": "page"}}]}]}


def test_a_panel_shows_its_series_with_the_highest_first(prometheus: Prometheus) -> None:
    rows = list(panels(prometheus, [board("rate(handled[$__rate_interval])", unit="ops")], "1m"))

    assert rows == [Row(cells=("Board", "Panel", "retrieve: 12,345/s; embed: 2.5/s"), failed=False)]


def test_a_panel_of_several_queries_has_a_line_for_each(prometheus: Prometheus) -> None:
    rows = list(panels(prometheus, [board("share", "share", unit="percentunit")], "1m"))

    assert [row.cells[1:] for row in rows] == [("Panel, q0", "6.25 %"), ("Panel, q1", "6.25 %")]


@pytest.mark.parametrize("expression", ["nothing", "quantile"])
def test_a_query_without_a_number_fails(prometheus: Prometheus, expression: str) -> None:
    rows = list(panels(prometheus, [board(expression)], "1m"))

    assert rows == [Row(cells=("Board", "Panel", "**no data**"), failed=True)]


def test_a_panel_may_say_what_it_means_that_nothing_is_there(prometheus: Prometheus) -> None:
    rows = list(panels(prometheus, [board("nothing", noValue="none")], "1m"))

    assert rows == [Row(cells=("Board", "Panel", "none"), failed=False)]


def test_a_query_that_is_refused_is_named(prometheus: Prometheus) -> None:
    with pytest.raises(ValueError, match=r"parse error: \)"):
        list(panels(prometheus, [board(")")], "1m"))


def test_an_answer_that_prometheus_does_not_give_is_told_as_such(prometheus: Prometheus) -> None:
    with pytest.raises(httpx.HTTPError, match="<html>"):
        prometheus.ask("login")


@pytest.mark.parametrize(
    ("expression", "state", "failed"),
    [
        ("lag > 60", "embed: 61", False),
        ("lag > 600", "quiet", False),
        ("absent_one > 0", "**no data**: absent_one", True),
        ("freki_dead_letters_total > 0", "quiet", False),
    ],
)
def test_an_alert_needs_what_it_watches_unless_that_comes_with_trouble(
    prometheus: Prometheus, expression: str, state: str, *, failed: bool
) -> None:
    rows = list(alerts(prometheus, rules(expression)))

    assert rows == [Row(cells=("Late", "page", state), failed=failed)]


def test_rows_become_a_table_of_markdown() -> None:
    assert table(("a", "b"), [Row(cells=("x|y", "z"), failed=False)]) == "| a | b |\n| --- | --- |\n| x&#124;y | z |"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "127.0.0.1:9090"])
def test_a_prometheus_that_does_not_answer_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["check", url])

    with pytest.raises(SystemExit, match=rf"{url} does not answer as Prometheus"):
        main()


def test_a_window_that_is_no_duration_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["check", "http://127.0.0.1:1", "--window", "five"])

    with pytest.raises(SystemExit):
        main()
    assert "--window" in capsys.readouterr().err
