"""What is read from the environment and `freki.toml`, and what counts as not set."""

import re
from pathlib import Path

import pytest

from freki.infra.settings import ModelSettings, Settings
from freki.infra.settings.inspect import template
from freki.infra.settings.read import WrongSettings, read_settings
from freki.infra.settings.table import table
from freki.schemas import ChunkKind, Widening

pytestmark = pytest.mark.usefixtures("folder")

VARIABLES = re.findall(r"^\| `(FREKI_\w+)`", table(), re.MULTILINE)
OTHERS = [
    "FREKI_RETRIEVAL",
    "FREKI_CHUNKING__PDF",
    "FREKI_MODELS__EMBEDDERS__CODE",
    "FREKI_RETRIEVAL__PROFILES__PHI3",
    "freki_llm__url",
]
"""Whole sections as JSON, keys of tables, and another case."""


def write_toml(folder: Path, text: str) -> None:
    (folder / "freki.toml").write_text(text, encoding="utf-8")


class TestEmptyCountsAsNotSet:
    @pytest.mark.parametrize("variable", [*VARIABLES, *OTHERS])
    def test_an_empty_variable_is_as_one_that_is_not_there(
        self, variable: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usual = Settings()
        monkeypatch.setenv(variable, "")

        settings = Settings()

        assert settings == usual
        assert settings.model_fields_set == set()

    def test_the_file_says_what_an_empty_variable_does_not(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_toml(folder, '[llm]\nurl = "http://host/v1"\nmodel = "m"\n')
        monkeypatch.setenv("FREKI_LLM__URL", "")
        monkeypatch.setenv("FREKI_LLM__MODEL", "n")

        llm = Settings().llm

        assert (llm.url, llm.model) == ("http://host/v1", "n")

    def test_an_empty_text_in_the_file_or_in_json_counts_as_not_set_too(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_toml(folder, '[llm]\nurl = ""\n[models]\nreranker = ""\n[models.embedders]\nCODE = ""\n')
        monkeypatch.setenv("FREKI_REGISTRY", '{"url": "", "username": "me"}')

        settings = Settings()

        assert settings.llm.url is settings.registry.url is None
        assert settings.registry.username == "me"
        assert settings.models == ModelSettings()
        assert settings.models.reranker == "late-interaction"

    def test_an_empty_list_zero_and_false_are_values(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FREKI_RETRIEVAL__WIDEN", "[]")
        monkeypatch.setenv("FREKI_RETRIEVAL__NEIGHBOURS", "0")
        monkeypatch.setenv("FREKI_RETRIEVAL__PARENTS", "false")

        retrieval = Settings().retrieval

        assert (retrieval.widen, retrieval.neighbours, retrieval.parents) == ((), 0, False)


class TestNone:
    @pytest.mark.parametrize("word", ["none", "None", "NONE"])
    def test_none_is_the_word_for_no_reranker(self, word: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_toml(folder, f'[models]\nreranker = "{word}"\n')
        assert Settings().models.reranker is None

        write_toml(folder, "")
        monkeypatch.setenv("FREKI_MODELS__RERANKER", word)
        assert Settings().models.reranker is None

    def test_none_in_the_environment_takes_back_what_the_file_sets(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        retrieval = '[retrieval]\nhybrid_alpha = 0.4\nreply_topics = ["a"]\n'
        write_toml(folder, f'ready_file = "ready"\n{retrieval}[models.embedders]\nCODE = "x"\n')
        for variable in (
            "FREKI_READY_FILE",
            "FREKI_RETRIEVAL__HYBRID_ALPHA",
            "FREKI_RETRIEVAL__REPLY_TOPICS",
            "FREKI_RETRIEVAL__WIDEN",
            "FREKI_MODELS__EMBEDDERS",
        ):
            monkeypatch.setenv(variable, "none")

        settings = Settings()

        assert (settings.ready_file, settings.retrieval.hybrid_alpha) == (None, None)
        assert settings.retrieval.reply_topics == settings.retrieval.widen == ()
        assert settings.models.embedders == {}

    def test_none_stays_a_word_where_a_setting_has_a_value_of_that_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FREKI_RETRIEVAL__RERANKER", "NONE")
        monkeypatch.setenv("FREKI_TENANT", "none")
        # A server without authentication may want any key.
        monkeypatch.setenv("FREKI_LLM__API_KEY", "none")

        settings = Settings()

        assert (settings.retrieval.reranker, settings.tenant) == ("NONE", "none")
        assert settings.llm.api_key is not None
        assert settings.llm.api_key.get_secret_value() == "none"


def test_variables_may_have_any_case_and_tables_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("freki_tenant", "team")
    monkeypatch.setenv("Freki_Models__Embedders__code", "coder")
    monkeypatch.setenv("FREKI_RETRIEVAL__WIDEN", '["SYNONYMS"]')

    settings = Settings()

    assert settings.tenant == "team"
    assert settings.models.embedders == {ChunkKind.CODE: "coder"}
    assert settings.retrieval.widen == (Widening.SYNONYMS,)


@pytest.mark.parametrize(
    ("variable", "value", "key", "table"),
    [
        ("FREKI_LIMITS__TENANTS__HR__DOCUMENTS", "2", "HR", "FREKI_LIMITS__TENANTS"),
        ("FREKI_LIMITS__TENANTS__Hr", '{"documents": 2}', "Hr", "FREKI_LIMITS__TENANTS"),
        ("freki_limits__tenants__HR__documents", "2", "HR", "FREKI_LIMITS__TENANTS"),
        ("FREKI_KAFKA__OAUTH__EXTENSIONS__logicalCluster", "x", "logicalCluster", "FREKI_KAFKA__OAUTH__EXTENSIONS"),
    ],
)
def test_a_key_whose_case_counts_is_not_guessed(
    variable: str, value: str, key: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(WrongSettings) as failure:
        read_settings()

    [problem] = failure.value.problems
    assert problem.startswith(f"{variable}: names of variables have no case")
    assert f"{table}='{{\"{key}\": …}}'" in problem


def test_a_key_whose_case_counts_may_be_json_or_in_small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_LIMITS__TENANTS", '{"HR": {"documents": 2}}')
    monkeypatch.setenv("FREKI_LIMITS__TENANTS__sales__DOCUMENTS", "3")
    monkeypatch.setenv("FREKI_LIMITS__TENANTS__IT__DOCUMENTS", "")

    limits = Settings().limits

    assert [limits.of(name)["documents"] for name in ("HR", "hr", "sales", "it")] == [2, None, 3, None]


def test_a_profile_may_be_json_or_a_variable_for_each_of_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_RETRIEVAL__PROFILES__PHI3", '{"hits": 3, "context_tokens": 800}')
    monkeypatch.setenv("FREKI_RETRIEVAL__PROFILES__70B__HITS", "9")
    monkeypatch.setenv("FREKI_RETRIEVAL__PROFILES__70B__CONTEXT_TOKENS", "4000")

    profiles = Settings().retrieval.profiles

    assert {name: (profile.hits, profile.context_tokens) for name, profile in profiles.items()} == {
        "phi3": (3, 800),
        "70b": (9, 4000),
    }


def test_the_file_may_begin_with_a_byte_order_mark(folder: Path) -> None:
    write_toml(folder, '\ufeff[llm]\r\nurl = "http://host/v1"\r\n')

    assert Settings().llm.url == "http://host/v1"


@pytest.mark.parametrize("servers", ["localhost", "a:1,b", ":9092", "a:1,", "a:port", "a:65536", "kafka://a:9092"])
def test_a_broker_without_host_or_port_is_named(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_KAFKA__BOOTSTRAP", servers)

    with pytest.raises(ValueError, match=f"FREKI_KAFKA__BOOTSTRAP={servers}: .* is no host:port"):
        Settings()


@pytest.mark.parametrize(
    "variable",
    [
        "FREKI_REGISTRY__URL",
        "FREKI_TELEMETRY__OTLP_ENDPOINT",
        "FREKI_LLM__URL",
        "FREKI_OCR__URL",
        "FREKI_REMOTE_RERANKER__URL",
        "FREKI_VERTEX_RERANKER__URL",
        "FREKI_MODELS__REMOTE__URL",
        "FREKI_KAFKA__OAUTH__TOKEN_URL",
        "FREKI_ENCRYPTION__VAULT_URL",
        "FREKI_MCP__URL",
    ],
)
@pytest.mark.parametrize(
    "url",
    ["nix", "localhost:4318/v1", "ftp://host", "http://", "http://[::1", "http://host:port", "http://a:se/t@host"],
)
def test_a_url_of_no_server_is_named_and_not_shown(variable: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, url)

    with pytest.raises(WrongSettings, match=f"{variable}: no URL of a server") as failure:
        read_settings()

    assert "se/t" not in str(failure.value)


@pytest.mark.parametrize("url", ["https://", "https:///keys", "https://[::1", "https://a:se/t@host"])
def test_a_url_of_keys_without_a_server_is_named_and_not_shown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_AUTH__JWKS", url)

    with pytest.raises(WrongSettings, match="FREKI_AUTH__JWKS: no URL of a server") as failure:
        read_settings()

    assert "se/t" not in str(failure.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FREKI_MILVUS__URI", "https://user:s3/cret@host:19530"),
        ("FREKI_KAFKA__BOOTSTRAP", "SASL_SSL://user:s3cret@host:9092"),
        ("FREKI_KAFKA__BOOTSTRAP", "user:s3cret@host:9092"),
        ("FREKI_KAFKA__BOOTSTRAP", "a:9092,user:s3/cret@host"),
    ],
)
def test_no_part_of_a_password_in_an_address_is_shown(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(WrongSettings, match=variable) as failure:
        read_settings()

    assert "s3" not in str(failure.value)


@pytest.mark.parametrize("servers", ["localhost:9092", "[::1]:9092", "a:1, b:2"])
def test_brokers_with_host_and_port_are_taken(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_KAFKA__BOOTSTRAP", servers)

    assert Settings().kafka.bootstrap == servers


def test_each_file_may_be_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FREKI_READY_FILE", "~/ready")
    monkeypatch.setenv("FREKI_SERVE__CERT_FILE", "~/server.pem")
    monkeypatch.setenv("FREKI_SERVE__KEY_FILE", "~/server.key")

    settings = read_settings()

    assert settings.ready_file == tmp_path / "ready"
    assert (settings.serve.cert_file, settings.serve.key_file) == (tmp_path / "server.pem", tmp_path / "server.key")


@pytest.mark.parametrize("variable", ["FREKI_MODELS__CACHE_DIR", "FREKI_KAFKA__PASSWORD_FILE"])
def test_a_file_at_the_home_of_nobody_is_named(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "~nobody-here/file")

    with pytest.raises(WrongSettings, match=f"{variable}: .*begins with the home of a user who is not known here"):
        read_settings()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("security", "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("fusion", "WEIGHTED, RRF, ZSCORE, TMM, ARCTAN"),
        ("widen", ", ".join(Widening)),
        ("interface", "openai, tei, cohere, ollama"),
        ("log_format", "console, json"),
    ],
)
def test_the_values_that_a_setting_takes_are_told(name: str, values: str) -> None:
    row = re.search(rf"^\| `FREKI_\w+__{name.upper()}` .*$", table(), re.MULTILINE)
    comment = re.search(rf"^(## .*\n)+# {name} = ", template(), re.MULTILINE)

    assert row
    assert comment
    for value in values.split(", "):
        assert f"`{value}`" in row[0]
        assert f"`{value}`" in comment[0]
