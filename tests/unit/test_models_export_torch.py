"""Exports of small random models, compared with torch; needs the extra `models-export`: CONTRIBUTING.md."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from typer.testing import CliRunner

from freki.cli.main import app
from freki.infra.models import ModelKind, OnnxEmbedder, OnnxReranker, check_models
from freki.infra.models.descriptions import Pooling
from freki.infra.models.export import Precision, Request, export_model, exporter
from freki.infra.models.export.texts import PASSAGES, QUERIES, long_text
from freki.infra.models.manifest import read_manifest, seal
from freki.infra.models.progress import unseen
from freki.infra.settings import ModelSettings
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured
from tests.unit.rerank_pairs import paired
from tests.unit.tiny_models import write_hub_files, write_sentence_encoder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = ["ja", "Die Zugspitze ist der höchste Berg.", "", "Rotate the signing key every ninety days. " * 5]
PIECES = 2000
"""Rows of the embedding table, enough to become 8-bit."""
SIZES: Mapping[str, Any] = {
    "vocab_size": PIECES,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    # Large enough that attention matters, small enough that texts with common words stay similar.
    "initializer_range": 0.06,
}


def wordpiece() -> Tokenizer:
    """Make a tokenizer of BERT's kind."""
    normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    known = [normalizer.normalize_str(text) for text in (*PASSAGES, *QUERIES)]
    words = sorted({word for text in known for word, _ in splitter.pre_tokenize_str(text)})
    letters = sorted({letter for word in words for letter in word})
    specials = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    pieces = dict.fromkeys((*specials, *words, *letters, *(f"##{letter}" for letter in letters)))
    # A trainer would number pieces otherwise each time, and the random states of texts with them.
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=specials[1]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    return processed(tokenizer, "[CLS]", "[SEP]")


def unigram() -> Tokenizer:
    """Make a tokenizer of XLM-R's kind, with its special tokens."""
    splitter = pre_tokenizers.Metaspace()
    words = sorted({word for text in (*PASSAGES, *QUERIES) for word, _ in splitter.pre_tokenize_str(text)})
    letters = sorted({letter for word in words for letter in word} - set(words))
    specials = ("<s>", "<pad>", "</s>", "<unk>")
    scored = [
        *((each, 0.0) for each in specials),
        *((each, -4.0) for each in words),
        *((each, -9.0) for each in letters),
    ]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=3))
    tokenizer.pre_tokenizer = splitter
    return processed(tokenizer, "<s>", "</s>")


def processed(tokenizer: Tokenizer, first: str, last: str) -> Tokenizer:
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(each, tokenizer.token_to_id(each)) for each in (first, last)],
    )
    return tokenizer


def save(model: Any, tokenizer: Tokenizer, folder: Path, *, window: int, **special: Any) -> Path:
    """Write a model as transformers does."""
    model.save_pretrained(folder)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=window, **special)
    fast.save_pretrained(folder)
    return folder


BERT_TOKENS = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
XLM_TOKENS = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an encoder without files of sentence-transformers."""
    # A random model that tells an answer from another text, as `freki models check` wants.
    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(**SIZES, max_position_embeddings=64))
    return save(model, wordpiece(), tmp_path_factory.mktemp("hub") / "tiny-bert", window=64, **BERT_TOKENS)


@pytest.fixture(scope="module")
def xlm_r(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an encoder whose positions begin with 2."""
    torch.manual_seed(2)
    config = transformers.XLMRobertaConfig(
        **SIZES, max_position_embeddings=50, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2
    )
    folder = tmp_path_factory.mktemp("hub") / "tiny-xlm-r"
    return save(transformers.XLMRobertaModel(config), unigram(), folder, window=10**30, **XLM_TOKENS)


@pytest.fixture(scope="module")
def long_context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an encoder that reads 2048 tokens, with rotary positions and local attention."""
    torch.manual_seed(3)
    special = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    config = transformers.ModernBertConfig(**SIZES, **special, max_position_embeddings=2048, local_attention=64)
    folder = tmp_path_factory.mktemp("hub") / "tiny-modern"
    return save(transformers.ModernBertModel(config), wordpiece(), folder, window=2048, **BERT_TOKENS)


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a cross-encoder that tells query and text apart by token types."""
    torch.manual_seed(4)
    config = transformers.BertConfig(**SIZES, max_position_embeddings=64, num_labels=1)
    model = transformers.BertForSequenceClassification(config)
    tokenizer = wordpiece()
    # So that scores differ, around 0.5.
    model.classifier.weight.data *= 40
    logits = [logit_of(model.eval(), tokenizer, (QUERIES[0], text)) for text in PASSAGES]
    model.classifier.bias.data -= sum(logits) / len(logits)
    folder = tmp_path_factory.mktemp("hub") / "tiny-cross"
    inputs = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    return save(model, tokenizer, folder, window=64, **BERT_TOKENS, **inputs)


def logit_of(model: Any, tokenizer: Tokenizer, pair: tuple[str, str]) -> float:
    """Return the logit of a pair by torch, with tokens from the tokenizer itself."""
    tokenizer.enable_truncation(64, strategy="only_second")
    tokens = tokenizer.encode(*pair)
    tokenizer.no_truncation()
    with torch.inference_mode():
        return float(model(torch.tensor([tokens.ids]), token_type_ids=torch.tensor([tokens.type_ids])).logits)


def states(folder: Path, text: str, *, window: int) -> Floats:
    """Return the states of a text's tokens by torch, (tokens, dim), with tokens from the file itself."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(window)
    with torch.inference_mode():
        found: Floats = model(input_ids=torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0].numpy()
    return found


def unit(vector: Floats) -> Floats:
    scaled: Floats = vector / np.linalg.norm(vector)
    return scaled


async def exported(folder: Path, directory: Path, **options: Any) -> Path:
    await export_model(Request(source=str(folder), directory=directory, **options), ModelSettings(), unseen)
    return directory


def chosen(directory: Path, **others: Any) -> ModelSettings:
    return ModelSettings(embedder=str(directory), reranker=None, threads=1, **others)


@pytest.mark.parametrize(("precision", "most"), [(Precision.FP32, 1e-5), (Precision.INT8, 0.02)])
async def test_an_encoder_gives_the_mean_states_of_torch(
    bert: Path, tmp_path: Path, precision: Precision, most: float
) -> None:
    directory = await exported(bert, tmp_path / "out", precision=precision)
    texts = [*TEXTS, long_text(200)]

    async with OnnxEmbedder(chosen(directory)) as embedder:
        passages = (await embedder.embed_passages(texts)).vectors
        queries = (await embedder.embed_queries(texts)).vectors

    expected = np.array([unit(states(bert, text, window=64).mean(axis=0)) for text in texts])
    assert (1 - (passages * expected).sum(axis=1)).max() < most
    assert (1 - (queries * expected).sum(axis=1)).max() < most
    (check,) = await check_models(chosen(directory))
    assert check.message == "agrees with 13 known numbers"


async def test_positions_that_begin_with_2_prefixes_and_the_first_token_are_heeded(xlm_r: Path, tmp_path: Path) -> None:
    options = {"pooling": Pooling.CLS, "query_prefix": "query: ", "passage_prefix": "passage: "}
    directory = await exported(xlm_r, tmp_path / "out", precision=Precision.FP32, **options)
    texts = [*TEXTS, long_text(200)]

    async with OnnxEmbedder(chosen(directory)) as embedder:
        passages = (await embedder.embed_passages(texts)).vectors
        queries = (await embedder.embed_queries(texts)).vectors

    assert read_manifest(directory).max_tokens == 48
    for prefix, found in (("query: ", queries), ("passage: ", passages)):
        expected = np.array([unit(states(xlm_r, prefix + text, window=48)[0]) for text in texts])
        assert (1 - (found * expected).sum(axis=1)).max() < 1e-5


async def test_a_long_context_encoder_embeds_parts_of_long_texts(long_context: Path, tmp_path: Path) -> None:
    directory = await exported(long_context, tmp_path / "out", precision=Precision.FP32)
    text = long_text(500)
    last = text.rindex("Zugspitze")

    async with OnnxEmbedder(chosen(directory, late_window_tokens=2000)) as embedder:
        (whole,) = (await embedder.embed_passages([text])).vectors
        (part,) = (await embedder.embed_within([text], [[(last, last + len("Zugspitze"))]])).vectors

    expected = states(long_context, text, window=2048)
    offsets = Tokenizer.from_file(str(long_context / "tokenizer.json")).encode(text).offsets
    inside = [start >= last and end <= last + len("Zugspitze") and end > start for start, end in offsets]
    assert whole @ unit(expected.mean(axis=0)) > 1 - 1e-5
    assert part @ unit(expected[inside].mean(axis=0)) > 1 - 1e-5


@pytest.mark.parametrize(("precision", "most"), [(Precision.FP32, 1e-4), (Precision.INT8, 0.05)])
async def test_a_cross_encoder_gives_the_scores_of_torch(
    cross_encoder: Path, bert: Path, tmp_path: Path, precision: Precision, most: float
) -> None:
    directory = await exported(cross_encoder, tmp_path / "out", precision=precision)
    pairs = [(QUERIES[0], text) for text in (*PASSAGES, long_text(200))]

    async with OnnxReranker(ModelSettings(reranker=str(directory), threads=1)) as reranker:
        scores = await reranker.score(paired(pairs), budget_s=None)

    model = transformers.BertForSequenceClassification.from_pretrained(cross_encoder).eval()
    tokenizer = Tokenizer.from_file(str(cross_encoder / "tokenizer.json"))
    expected = [1 / (1 + math.exp(-logit_of(model, tokenizer, pair))) for pair in pairs]
    assert read_manifest(directory).kind is ModelKind.RERANKER
    assert max(expected) - min(expected) > 0.2, "the model tells nothing apart"
    assert scores == pytest.approx(expected, abs=most)
    encoder = await exported(bert, tmp_path / "encoder", precision=Precision.FP32)
    (_, check) = await check_models(ModelSettings(embedder=str(encoder), reranker=str(directory), threads=1))
    assert "away from torch" not in check.message


async def test_a_check_finds_weights_that_were_altered(bert: Path, tmp_path: Path) -> None:
    directory = await exported(bert, tmp_path / "out", precision=Precision.FP32)
    weights = directory / "model.onnx.data"
    content = bytearray(weights.read_bytes())
    # A tenth of the embedding table.
    content[:51_200] = content[51_200:102_400]
    weights.write_bytes(content)

    with pytest.raises(Misconfigured, match=r"model\.onnx\.data is not what was written"):
        await check_models(chosen(directory))

    # Also where checksums were rewritten.
    manifest = read_manifest(directory)
    (directory / "manifest.json").unlink()
    seal(directory, manifest_description(manifest), fingerprint=manifest.fingerprint, expected=manifest.expected)
    (check,) = await check_models(chosen(directory))
    assert not check.ok
    assert "away from torch" in check.message


def manifest_description(manifest: Any) -> Any:
    from freki.infra.models.descriptions import ModelDescription

    return ModelDescription(**{name: getattr(manifest, name) for name in ModelDescription.model_fields})


async def test_an_export_that_deviates_names_the_worst_text_and_leaves_nothing(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(exporter.TOLERANCES, (Precision.INT8, ModelKind.EMBEDDER), 1e-9)

    with pytest.raises(
        Misconfigured, match=r"the output for '.*' is 0\.\d+ away .* nothing is written: try --precision"
    ):
        await exported(bert, tmp_path / "out" / "model")

    assert list((tmp_path / "out").iterdir()) == []


async def test_models_that_torch_cannot_load_or_that_look_ahead_only_are_refused(tmp_path: Path) -> None:
    write_sentence_encoder(tmp_path / "broken")
    write_hub_files(tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(Misconfigured, match="does not load"):
        await exported(tmp_path / "broken", tmp_path / "out")
    config = transformers.GPT2Config(vocab_size=PIECES, n_embd=32, n_layer=1, n_head=2, n_positions=64)
    decoder = save(transformers.GPT2Model(config), wordpiece(), tmp_path / "decoder", window=64, **BERT_TOKENS)
    with pytest.raises(Misconfigured, match="is a GPT2Model, and Freki exports encoders only"):
        await exported(decoder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_prints_the_setting_that_uses_the_model(bert: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["models", "export", str(bert), str(tmp_path / "out"), "--precision", "fp32"])

    assert done.exit_code == 0, done.output
    assert "embedder tiny-bert, fp32, " in done.output
    assert "13 texts agree with torch: cosine distance 0.000000 on average" in done.output
    assert f"FREKI_MODELS__EMBEDDER={tmp_path / 'out'}" in done.output
