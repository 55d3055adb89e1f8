from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from freki.infra.models.bert import INPUTS, FloatDense, Graph, write_states
from freki.infra.models.e5s1 import E5S1, read_e5s1, unigram_tokenizer
from freki.infra.models.interaction import InteractionJob, read_head
from freki.infra.models.manifest import WEIGHTS
from freki.infra.models.session import open_model
from freki.infra.models.tuned import OUTPUTS, read_tuned, write_interaction
from freki.schemas.index import RerankPair
from freki.training.artefact import build_model, write_artefact
from freki.training.batches import Batches, Example
from freki.training.rows import Rows
from tests.unit.tiny_models import PIECES, TinyE5S1
from tests.unit.training_material import small_collection, studied

torch = pytest.importorskip("torch")

from freki.training.encoder import Encoder  # noqa: E402 - needs torch
from freki.training.student import Student, tensors_of  # noqa: E402

Floats = NDArray[np.float32]
EXAMPLES = [Example(0, number) for number in range(6)]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> E5S1:
    """Give small random weights."""
    tiny = TinyE5S1(layers=4, positions=192)
    return read_e5s1(tiny.write(tmp_path_factory.mktemp("weights") / "weights.bin"))


@pytest.fixture(scope="module")
def student(weights: E5S1) -> Student:
    """Give a student of three of four layers, all of whose parts differ from where they began."""
    torch.manual_seed(0)
    made = Student(Encoder(weights, layers=3), frozen=1)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.03)
        made.head.mean.uniform_(0, 0.5)
        made.head.spread.uniform_(0.1, 0.3)
    return made


@pytest.fixture(scope="module")
def artefact(student: Student, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write what was trained."""
    path = tmp_path_factory.mktemp("artefact") / "reranker.npz"
    write_artefact(path, tensors_of(student), layers=3)
    return path


def logits_of(student: Student, weights: E5S1) -> Floats:
    """Score the examples as the training does."""
    batch, _ = Batches([studied(small_collection())], Rows(unigram_tokenizer(weights.pieces))).judge(EXAMPLES, width=8)
    with torch.no_grad():
        logits: Floats = student.head(student(batch).features).numpy()
    return logits


def served(directory: Path) -> Floats:
    """Score the same pairs as a worker does."""
    known = studied(small_collection())
    pairs = [
        RerankPair(
            query=known.collection.questions[number].text,
            heading=known.collection.documents[place].title,
            text=known.collection.documents[place].whole,
            fused=float(known.candidates.fused[number, rank]),
            cosine=float(known.candidates.cosines[number, rank]),
        )
        for _, number in EXAMPLES
        for rank, place in enumerate(known.candidates.places[number, :8])
    ]
    job = InteractionJob(open_model(directory, threads=1), read_head(directory), pairs, batch_tokens=512)
    return job.score(range(len(pairs)))


def test_the_encoder_in_torch_computes_what_the_graph_does(weights: E5S1) -> None:
    graph = Graph()
    state = write_states(graph, weights, FloatDense())
    session = ort.InferenceSession(graph.model([state]).SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    mask = np.arange(64) < np.array([[3], [17], [64]])
    ids = np.where(mask, rng.integers(4, len(PIECES), mask.shape), 1)

    encoder = Encoder(weights, layers=weights.shape.layers)
    with torch.no_grad():
        states = encoder(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()

    (expected,) = session.run([state], dict(zip(INPUTS, (ids, mask.astype(np.int64)), strict=True)))
    assert states[mask] == pytest.approx(expected[mask], abs=1e-4)


def test_in_floats_a_worker_scores_as_the_training_does(
    weights: E5S1, student: Student, artefact: Path, tmp_path: Path
) -> None:
    # given a model in floats beside the one that is served
    build_model(artefact, weights, tmp_path)
    graph = Graph()
    write_interaction(graph, read_tuned(artefact, weights), FloatDense())
    onnx.save_model(graph.model(OUTPUTS), tmp_path / WEIGHTS)

    scores = served(tmp_path)

    expected = logits_of(student, weights)
    assert scores == pytest.approx(expected, abs=1e-3 * float(np.ptp(expected)))


def test_in_eight_bits_it_scores_nearly_so(weights: E5S1, student: Student, artefact: Path, tmp_path: Path) -> None:
    build_model(artefact, weights, tmp_path)

    scores = served(tmp_path)

    expected = logits_of(student, weights)
    assert np.corrcoef(scores, expected)[0, 1] > 0.99


def test_only_what_was_trained_is_kept(student: Student) -> None:
    names = set(tensors_of(student))

    assert {name.split(".")[0] for name in names} == {"l1", "l2", "token", "weight", "view0", "view1", "head"}


def test_the_same_tensors_make_the_same_file(student: Student, artefact: Path, tmp_path: Path) -> None:
    write_artefact(tmp_path / "again.npz", tensors_of(student), layers=3)

    assert (tmp_path / "again.npz").read_bytes() == artefact.read_bytes()


def test_what_16_bits_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"token\.w"):
        write_artefact(tmp_path / "reranker.npz", {"token.w": np.array([1e9], np.float32)}, layers=1)
