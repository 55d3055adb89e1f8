import pytest

from freki.operators.analyse_query import compared


@pytest.mark.parametrize(
    ("text", "things"),
    [
        ("Vergleiche Miete und Pacht", ("Miete", "Pacht")),
        ("Vergleich zwischen der Miete und einer Pacht", ("Miete", "Pacht")),
        ("Was ist der Unterschied zwischen Miete und Pacht?", ("Miete", "Pacht")),
        ("Wie unterscheiden sich Miete und Pacht?", ("Miete", "Pacht")),
        ("Compare the rent with a lease", ("rent", "lease")),
        ("What is the difference between f-strings and templates?", ("f-strings", "templates")),
        ("Kafka vs. Pulsar", ("Kafka", "Pulsar")),
        ("Gilt das für Miete und Pacht?", ()),
        ("Vergleichsmiete und Pacht", ()),
    ],
)
def test_what_a_question_compares(text: str, things: tuple[str, ...]) -> None:
    assert compared(text) == things


@pytest.mark.parametrize("piece", ["a", "a-", "a ", "der ", "vergleich "])
def test_no_long_query_takes_long(piece: str) -> None:
    # What is quadratic would run into the suite's timeout.
    assert compared(piece * (400_000 // len(piece))) == ()
