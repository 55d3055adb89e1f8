"""Copies of documents that fill an index for measurements of its size."""

from bench.pipeline.copies import Copier, copy_id, is_copy
from freki.operators.identify import root_id
from freki.schemas import DocumentId
from tests.unit.revisions import TENANT, World, revision

TEXTS = ["alpha beta", "gamma delta", "epsilon zeta"]


async def test_copies_are_live_documents_with_ids_and_texts_of_their_own() -> None:
    world = World()
    await world.feed(revision("a", 1, TEXTS))
    key = root_id(TENANT, DocumentId("a"))
    original = (await world.index.roots([key]))[key]

    written = await Copier(world.index, world.index, dim=16, seed=1).copy(original, [1, 2])

    roots = {root.document_id: root async for root in world.index.all_roots()}
    assert roots.keys() == {"a", copy_id(original, 1), copy_id(original, 2)}
    assert [name for name, root in roots.items() if not is_copy(root)] == ["a"]
    assert written == 2 * original.chunks
    # `texts` fails where a row that a manifest names is missing.
    texts = [await world.texts(name) for name in roots]
    assert [len(each or ()) for each in texts] == [len(TEXTS)] * 3
    assert await world.texts("a") == TEXTS
    assert len({text for each in texts for text in each or ()}) == 3 * len(TEXTS)
