"""Exports of models, as far as they need no torch; test_models_export_torch.py has the rest."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from freki.infra import extras
from freki.infra.models import check_models
from freki.infra.models.bert import FloatDense, Graph, write_encoder
from freki.infra.models.build import save_graph
from freki.infra.models.descriptions import ModelDescription, ModelKind, Pooling
from freki.infra.models.e5s1 import read_e5s1
from freki.infra.models.export import Request, export_model
from freki.infra.models.export.calibration import calibration
from freki.infra.models.export.folder import read_folder
from freki.infra.models.export.graph import Feed, quantise
from freki.infra.models.export.texts import long_text
from freki.infra.models.manifest import Expected, ExpectedScore, ExpectedVector, read_manifest, seal
from freki.infra.models.progress import unseen
from freki.infra.models.tensors import OUTPUT
from freki.infra.settings import ModelSettings
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured
from tests.unit.tiny_models import (
    TinyE5S1,
    letter_tokenizer,
    word_tokenizer,
    write_cross_encoder,
    write_hub_files,
    write_sentence_encoder,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Lay out a sentence encoder as sentence-transformers does, with empty weights."""
    directory = tmp_path / "encoder"
    write_hub_files(directory)
    word_tokenizer().save(str(directory / "tokenizer.json"))
    (directory / "model.safetensors").touch()
    return directory


def configure(folder: Path, name: str = "config.json", **values: object) -> None:
    """Change values of a JSON file."""
    path = folder / name
    known = json.loads(path.read_bytes()) if path.is_file() else {}
    path.write_text(json.dumps(known | values))


def classify(folder: Path, **values: object) -> None:
    configure(folder, "config.json", architectures=["BertForSequenceClassification"], **values)


def test_a_sentence_encoder_is_read_as_its_files_say(folder: Path) -> None:
    (folder / "README.md").write_text("---\nlanguage: de\nlicense: mit\n---\n# Model\n")

    assert read_folder(folder) == ModelDescription(
        name="encoder",
        kind=ModelKind.EMBEDDER,
        dim=8,
        max_tokens=32,
        pooling=Pooling.MEAN,
        query_prefix="w1 ",
        passage_prefix="w2 ",
        licence="mit",
    )


def test_options_replace_what_the_files_say(folder: Path) -> None:
    configure(folder, "1_Pooling/config.json", pooling_mode_mean_tokens=False, pooling_mode_lasttoken=True)

    found = read_folder(folder, pooling=Pooling.CLS, query_prefix="query: ", passage_prefix="", max_tokens=16)

    assert (found.pooling, found.query_prefix, found.passage_prefix, found.max_tokens) == (
        Pooling.CLS,
        "query: ",
        "",
        16,
    )


def test_the_first_token_is_pooled_where_the_files_say_so(folder: Path) -> None:
    configure(folder, "1_Pooling/config.json", pooling_mode_mean_tokens=False, pooling_mode_cls_token=True)

    assert read_folder(folder).pooling is Pooling.CLS


def test_a_classifier_with_one_label_is_a_reranker_without_prefixes(folder: Path) -> None:
    classify(folder, id2label={"0": "LABEL_0"})

    found = read_folder(folder)

    assert (found.kind, found.dim, found.query_prefix, found.passage_prefix) == (ModelKind.RERANKER, None, "", "")
    assert read_folder(folder, kind=ModelKind.EMBEDDER).dim == 8


@pytest.mark.parametrize(
    ("model_type", "pad", "expected"),
    [("bert", 0, 66), ("xlm-roberta", 1, 64), ("roberta", None, 64), ("camembert", 1, 64), ("mpnet", 1, 64)],
)
def test_the_window_is_less_what_the_positions_begin_with(
    folder: Path, model_type: str, pad: int | None, expected: int
) -> None:
    (folder / "sentence_bert_config.json").unlink()
    configure(folder, model_type=model_type, pad_token_id=pad, max_position_embeddings=66)
    configure(folder, "tokenizer_config.json", model_max_length=10**30)

    assert read_folder(folder).max_tokens == expected


REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("config.json", {"architectures": ["Qwen3ForCausalLM"]}, "is a Qwen3ForCausalLM, and Freki exports encoders"),
    ("config.json", {"is_encoder_decoder": True, "architectures": ["T5Model"]}, "is a T5Model, and Freki exports"),
    ("config.json", {"auto_map": {"AutoModel": "modeling.Own"}}, "needs Python code of its repository"),
    ("config.json", {"architectures": ["BertForTokenClassification"]}, "--kind=embedder takes its encoder alone"),
    ("modules.json", {}, "keeps its encoder in 0_Transformer: move the files"),
    ("1_Pooling/config.json", {"include_prompt": False}, "leaves prefixes out of the mean"),
    ("1_Pooling/config.json", {"pooling_mode_lasttoken": True}, "does not pool by pooling_mode_lasttoken"),
    ("config.json", {"max_position_embeddings": None}, "max_tokens"),
]


@pytest.mark.parametrize(("file", "values", "message"), REFUSED)
def test_what_freki_cannot_run_is_refused_with_the_reason(
    folder: Path, file: str, values: dict[str, object], message: str
) -> None:
    if file == "modules.json":
        module = {"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"}
        (folder / file).write_text(json.dumps([module]))
    else:
        configure(folder, file, **values)
    if "max_position_embeddings" in values:
        (folder / "sentence_bert_config.json").unlink()

    with pytest.raises(Misconfigured, match=message):
        read_folder(folder)


def test_a_classifier_that_is_no_reranker_is_refused(folder: Path) -> None:
    with pytest.raises(Misconfigured, match=r"has no head that scores pairs \(BertModel"):
        read_folder(folder, kind=ModelKind.RERANKER)
    classify(folder, id2label={"0": "no", "1": "perhaps", "2": "yes"})
    with pytest.raises(Misconfigured, match="gives 3 numbers a pair"):
        read_folder(folder)
    # transformers writes no labels where there are two.
    configure(folder, id2label=None)
    with pytest.raises(Misconfigured, match="gives 2 numbers a pair"):
        read_folder(folder)


def test_options_that_do_not_fit_are_refused(folder: Path) -> None:
    with pytest.raises(Misconfigured, match="reads 32 tokens; give at most these"):
        read_folder(folder, max_tokens=33)
    classify(folder, id2label={"0": "LABEL_0"})
    with pytest.raises(Misconfigured, match="has no prefixes: leave out the options"):
        read_folder(folder, query_prefix="query: ")


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_no_model(folder: Path, file: str) -> None:
    (folder / file).unlink()

    with pytest.raises(Misconfigured, match=file.replace("model", r"\*")):
        read_folder(folder)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as if the extra were installed."""
    monkeypatch.setattr(extras, "find_spec", lambda name: name)


async def test_without_the_extra_the_command_to_install_it_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "torch" else name)

    with pytest.raises(Misconfigured, match=r"torch is not installed: pip install --editable '\.\[models-export\]'"):
        await export_model(Request(source=str(folder), directory=tmp_path / "out"), ModelSettings(), unseen)


@pytest.mark.usefixtures("installed")
async def test_a_directory_with_files_is_not_overwritten(folder: Path) -> None:
    with pytest.raises(Misconfigured, match="is there and not empty: name another folder"):
        await export_model(Request(source=str(folder), directory=folder), ModelSettings(), unseen)


def expected_of(directory: Path, table: Floats, *, off: float = 0.0) -> None:
    """Write a manifest with the vector of a query, and a tolerance."""
    mean = table[[2, 4, 5, 3]].mean(axis=0)
    mean[0] += off
    vector = tuple(float(number) for number in mean / np.linalg.norm(mean))
    expected = Expected(
        by="torch 2", tolerance=1e-4, vectors=(ExpectedVector(role="query", text="w0 w1", vector=vector),)
    )
    description = ModelDescription(name="tiny", kind=ModelKind.EMBEDDER, dim=8, max_tokens=32)
    seal(directory, description, fingerprint="tiny@1", weights="onnx/model.onnx", expected=expected)


async def test_a_check_compares_with_the_vectors_in_the_manifest(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    table = write_sentence_encoder(directory)
    settings = ModelSettings(embedder=str(directory), reranker=None, threads=1)

    expected_of(directory, table)
    (right,) = await check_models(settings)
    (directory / "manifest.json").unlink()
    expected_of(directory, table, off=2.0)
    (wrong,) = await check_models(settings)

    assert "away from torch" not in right.message
    assert not wrong.ok
    assert "'w0 w1' is 0." in wrong.message
    assert "away from torch 2, 0.0001 is allowed" in wrong.message


@pytest.mark.parametrize(("score", "is_right"), [(0.5, True), (0.4, False)])
async def test_a_check_compares_with_the_scores_in_the_manifest(tmp_path: Path, score: float, is_right: bool) -> None:  # noqa: FBT001
    embedder, reranker = tmp_path / "embedder", tmp_path / "reranker"
    write_sentence_encoder(embedder)
    write_hub_files(embedder)
    write_cross_encoder(reranker)
    (reranker / "manifest.json").unlink()
    # Two common words: a logit of 0.
    expected = Expected(by="torch 2", tolerance=0.01, scores=(ExpectedScore(query="w1 w2", text="w2 w1", score=score),))
    description = ModelDescription(name="tiny", kind=ModelKind.RERANKER, max_tokens=16)
    seal(reranker, description, fingerprint="tiny@1", expected=expected)

    (_, check) = await check_models(ModelSettings(embedder=str(embedder), reranker=str(reranker), threads=1))

    assert ("'w1 w2 | w2 w1' is 0.1000 away from torch 2" in check.message) != is_right


def test_what_an_export_adds_does_not_change_the_fingerprint_of_other_directories(tmp_path: Path) -> None:
    directory = write_cross_encoder(tmp_path / "model")
    manifest = read_manifest(directory)

    assert (manifest.source, manifest.precision, manifest.expected) == ("", "", None)


def run(file: Path, feed: Feed) -> Floats:
    (output,) = ort.InferenceSession(file, providers=["CPUExecutionProvider"]).run([OUTPUT], feed)
    found: Floats = output
    return found


def feed_of(*rows: list[int]) -> Feed:
    ids = np.array(rows, np.int64)
    return {"input_ids": ids, "attention_mask": (ids != 1).astype(np.int64)}


def test_dense_layers_in_8_bits_stay_close_to_floats_whatever_the_batch(tmp_path: Path) -> None:
    weights = read_e5s1(TinyE5S1().write(tmp_path / "weights.bin"))
    graph, file = Graph(), tmp_path / "model.onnx"
    outputs = write_encoder(graph, weights, FloatDense())
    save_graph(graph.model(outputs), file)
    short, long = [0, 5, 2], [0, 5, 4, 8, 9, 10, 11, 12, 13, 2]
    batch = feed_of([*short, *[1] * 7], long)
    floats = run(file, batch)

    quantise(file, [feed_of(long), feed_of(short)])

    found = run(file, batch)
    operators = [node.op_type for node in onnx.load(file, load_external_data=False).graph.node]
    assert (found * floats).sum(axis=1).min() > 0.99
    assert found[:1] == pytest.approx(run(file, feed_of(short)), abs=1e-5)
    # Six products in each of two layers; those of attention have no weights.
    assert operators.count("MatMulIntegerToFloat") == 12
    assert {path.name for path in tmp_path.iterdir()} == {"weights.bin", "model.onnx", "model.onnx.data"}


def test_a_transposed_weight_and_a_large_table_become_8_bits(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    rng = np.random.default_rng(0)
    constants: dict[str, NDArray[np.generic]] = {
        "table": rng.normal(size=(1024, 32)).astype(np.float32),
        "weights": rng.normal(size=(24, 32)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["states"]),
        helper.make_node("Transpose", ["weights"], ["columns"], perm=[1, 0]),
        helper.make_node("MatMul", ["states", "columns"], [OUTPUT]),
    ]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])]
    results = [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, None)]
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "tiny", inputs, results, initializers)
    save_graph(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), file)
    feed = {"input_ids": np.arange(0, 1024, 16).reshape(4, 16)}
    floats = run(file, feed)

    quantise(file, [feed])

    found = run(file, feed)
    left = onnx.load(file).graph
    assert np.abs(found - floats).max() < 0.03 * np.abs(floats).max()
    assert not {"Transpose", "MatMul"} & {node.op_type for node in left.node}
    assert sum(constant.data_type == TensorProto.INT8 and len(constant.dims) == 2 for constant in left.initializer) == 2


def test_calibration_inputs_have_prefixes_and_fit_the_model() -> None:
    description = ModelDescription(name="tiny", kind=ModelKind.EMBEDDER, dim=8, max_tokens=64, query_prefix="zz ")
    tokenizer = letter_tokenizer()

    feeds = list(calibration(description, tokenizer, ["input_ids", "attention_mask"]))

    z = tokenizer.token_to_id("z")
    assert max(feed["input_ids"].shape[1] for feed in feeds) == 64
    assert [feed["input_ids"][0, 1:3].tolist() == [z, z] for feed in feeds[:2]] == [True, True]
    assert all(feed.keys() == {"input_ids", "attention_mask"} for feed in feeds)


def test_calibration_inputs_of_a_reranker_are_pairs() -> None:
    description = ModelDescription(name="tiny", kind=ModelKind.RERANKER, max_tokens=512)

    feeds = calibration(description, letter_tokenizer(), ["input_ids", "token_type_ids"])

    assert all(feed["token_type_ids"].max() == 1 for feed in feeds)


def test_a_long_text_has_the_words_it_should_have() -> None:
    assert len(long_text(700).split()) == 700
