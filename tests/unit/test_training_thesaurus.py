"""Synonyms as they are packed from OpenThesaurus and WordNet."""

from pathlib import Path

from freki.training.thesaurus import english, german, packed


def test_of_openthesaurus_words_of_one_meaning_stay_and_colloquial_ones_only_ask(tmp_path: Path) -> None:
    path = tmp_path / "th.dat"
    path.write_text(
        "UTF-8\n"
        "mietwagen|1\n-|Leihwagen|Mietwagen|Leihschüssel (ugs.)|Auto (Oberbegriff)|... mieten\n"
        "leihwagen|1\n-|Leihwagen|Mietwagen|Leihschüssel (ugs.)|Auto (Oberbegriff)|... mieten\n"
        "leihschüssel|1\n-|Leihwagen|Mietwagen|Leihschüssel (ugs.)|Auto (Oberbegriff)|... mieten\n"
        "bank|2\n-|Bank|Sitzbank\n-|Bank|Geldinstitut\n"
    )

    assert german(path) == [(("Leihwagen", "Mietwagen"), ("Leihschüssel",))]


def test_of_wordnet_words_stay_that_nearly_always_have_the_meaning(tmp_path: Path) -> None:
    (tmp_path / "data.noun").write_text(
        "  1 licence\n01 06 n 03 car 0 auto 0 automobile 0 000 | a vehicle\n02 06 n 02 car 0 cable_car 0 000 | cabin\n"
    )
    (tmp_path / "index.noun").write_text(
        "  1 licence\nauto n 1 0 1 1 01\nautomobile n 1 0 1 1 01\ncar n 2 0 2 1 01 02\ncable_car n 1 0 1 0 02\n"
    )
    (tmp_path / "cntlist.rev").write_text("car%1:06:00:: 1 90\ncar%1:06:01:: 2 2\n")
    for part in ("verb", "adj", "adv"):
        (tmp_path / f"data.{part}").touch()
        (tmp_path / f"index.{part}").touch()

    assert english(tmp_path) == [(("auto", "automobile", "car"), ())]


def test_a_line_holds_a_meaning() -> None:
    assert packed([(("a", "b"), ("c",)), (("d", "e"), ())], "From here.") == "# From here.\na b | c\nd e\n"
