import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.models.vectors import VectorCache
from freki.schemas.embeddings import PassageEmbedding

ROOM = 4 * 600
"""For about four vectors of eight numbers and some codes, with what each takes besides."""


def embedding(number: int) -> PassageEmbedding:
    return PassageEmbedding(np.full(8, number, np.float32), "*" * number)


made = st.lists(st.text(alphabet="ab:1", max_size=3), min_size=2, max_size=4).map(tuple)


@given(kept=st.lists(made, max_size=12, unique=True))
def test_what_is_remembered_is_what_was_kept_and_the_latest_stays(kept: list[tuple[str, ...]]) -> None:
    cache = VectorCache("model@1", ROOM)
    passages = {key: embedding(number) for number, key in enumerate(kept)}

    for key, passage in passages.items():
        cache.keep({key: passage})

    found = cache.among(kept)
    assert set(kept[-3:]) <= set(found)
    assert len(found) <= 4
    assert all((each.vector == passages[key].vector).all() for key, each in found.items())
    assert all(each.match_code == passages[key].match_code for key, each in found.items())


@given(mine=made, other=made)
def test_only_what_is_made_of_the_same_is_found_so_that_tenants_stay_apart(
    mine: tuple[str, ...], other: tuple[str, ...]
) -> None:
    cache = VectorCache("model@1", ROOM)

    cache.keep({mine: embedding(1)})

    assert bool(cache.among([other])) == (mine == other)


def test_no_room_remembers_nothing() -> None:
    cache = VectorCache("model@1", 0)

    cache.keep({("a", "text"): embedding(1)})

    assert cache.among([("a", "text")]) == {}


def test_a_row_that_is_kept_does_not_hold_the_whole_matrix() -> None:
    cache = VectorCache("model@1", ROOM)
    matrix = np.ones((1000, 8), np.float32)

    cache.keep({("a", "text"): PassageEmbedding(matrix[0], "")})

    assert cache.among([("a", "text")])["a", "text"].vector.base is None
