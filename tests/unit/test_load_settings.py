"""What is wrong with a setting is told in one line, with the variable and where to correct it."""

from pathlib import Path

import pytest
import typer

from freki.cli.context import load_settings
from freki.infra.settings import ChunkingSettings, ChunkProfile
from freki.streams.wire.from_settings import topics_of
from tests.unit.refused_settings import refusal

IN_JSON = "in the environment as JSON"

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FREKI_RETRIEVAL__WIDEN", "[SPELLING"),
        ("FREKI_RETRIEVAL__PROFILES", "phi3"),
        ("FREKI_RETRIEVAL__PROFILES__PHI3", '{"hits": 3'),
        ("FREKI_RETRIEVAL", '{"widen'),
        ("FREKI_RELAYS", "[x"),
    ],
)
def test_a_variable_that_is_no_json_is_named(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)

    told = refusal(capsys)

    assert told.startswith(f"freki: {variable}: it should be a ")
    assert IN_JSON in told


def test_other_values_out_of_range_say_nothing_of_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FREKI_RETRIEVAL__WIDEN", '["SPELING"]')

    told = refusal(capsys)

    assert told.startswith("freki: FREKI_RETRIEVAL__WIDEN__0: ")
    assert IN_JSON not in told


def test_a_file_that_is_no_toml_is_named_with_the_place(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "freki.toml").write_text("[kafka\n", encoding="utf-8")

    told = refusal(capsys)

    assert told.startswith("freki: freki.toml: ")
    assert "line 1" in told


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("FREKI_RETRIVAL__TOP_K", "did you mean FREKI_RETRIEVAL__TOP_K?"),
        ("FREKI_RETRIEVAL_TOP_K", "did you mean FREKI_RETRIEVAL__TOP_K?"),
        ("FREKI_RETRIEVAL__TOPK", "did you mean FREKI_RETRIEVAL__TOP_K?"),
        ("freki_retrieval__topk", "did you mean FREKI_RETRIEVAL__TOP_K?"),
        ("FREKI_RETRIEVAL__TOP_K__", "did you mean FREKI_RETRIEVAL__TOP_K?"),
        ("FREKI_TENANT__NAME", "did you mean FREKI_TENANT?"),
        ("FREKI_TENNANT", "did you mean FREKI_TENANT?"),
        ("FREKI_KAFKA__PASWORD", "did you mean FREKI_KAFKA__PASSWORD?"),
        ("FREKI_MILVUS__BOOTSTRAP", "did you mean FREKI_KAFKA__BOOTSTRAP?"),
        ("FREKI_MODELS__EMBEDERS__CODE", "did you mean FREKI_MODELS__EMBEDDERS__CODE?"),
        ("FREKI_MODELS__EMBEDDERS__", "did you mean FREKI_MODELS__EMBEDDERS?"),
        ("FREKI_RETRIEVAL__PROFILES__PHI3__HIT", "did you mean FREKI_RETRIEVAL__PROFILES__PHI3__HITS?"),
        ("FREKI_MCP_PORT", "did you mean FREKI_MCP__PORT?"),
        ("FREKI_FOO", "docs/settings.md lists all"),
        ("FREKI_", "docs/settings.md lists all"),
        ("FREKI_QUUX", "docs/settings.md lists all"),
    ],
)
@pytest.mark.parametrize("value", ["3", ""])
def test_a_variable_that_names_no_setting_is_refused_with_the_nearest(
    variable: str, told: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)

    printed = refusal(capsys)

    assert printed.startswith(f"freki: {variable}: there is no such setting; ")
    assert printed.endswith(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tennant = 'x'", "FREKI_TENNANT, or tennant in freki.toml: there is no such setting; did you mean tenant?"),
        ("[retrival]\ntop_k = 3", "retrival in freki.toml: there is no such setting; did you mean retrieval?"),
        (
            "[retrieval]\ntopk = 3",
            "retrieval.topk in freki.toml: there is no such setting; did you mean retrieval.top_k",
        ),
        ("[chunking.pdf]\nmax = 3", "chunking.pdf.max in freki.toml: there is no such setting; "),
        ("FREKI_TENANT = 'x'", "FREKI_TENANT in freki.toml: there is no such setting; did you mean tenant?"),
        (
            '[[relays]]\ntopik = "x"',
            "relays.0.topik in freki.toml: there is no such setting; did you mean relays.0.topic?",
        ),
    ],
)
def test_a_line_of_the_file_that_names_no_setting_is_refused_with_the_nearest(
    text: str, told: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "freki.toml").write_text(text, encoding="utf-8")

    assert told in refusal(capsys)


def test_every_wrong_setting_has_a_line_of_its_own_and_no_value_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FREKI_LLM__APIKEY", "s3cret")
    monkeypatch.setenv("FREKI_RETRIEVAL__TOP_K", "s3cret")
    monkeypatch.setenv("FREKI_REGISTRY", '{"pasword": "s3cret"}')

    with pytest.raises(typer.Exit):
        load_settings()

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("freki: FREKI_") and "s3cret" not in line for line in lines)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FREKI_TEST_STACK", "local"),
        ("freki_test_outage_s", "1"),
        # Kubernetes, for Services with the names freki and freki-milvus.
        ("FREKI_SERVICE_HOST", "10.0.0.1"),
        ("FREKI_SERVICE_PORT_METRICS", "9464"),
        ("FREKI_PORT", "tcp://10.0.0.1:9464"),
        ("FREKI_MILVUS_PORT", "tcp://10.0.0.1:19530"),
        ("FREKI_MILVUS_PORT_19530_TCP", "tcp://10.0.0.1:19530"),
        ("FREKI_MILVUS_PORT_19530_TCP_ADDR", "10.0.0.1"),
        # Settings in other ways of writing.
        ("freki_retrieval__top_k", "3"),
        ("FREKI_RETRIEVAL", '{"top_k": 3}'),
        ("FREKI_MODELS__EMBEDDERS__code", "coder"),
        ("NOT_FREKI_TENNANT", "x"),
    ],
)
def test_other_variables_are_let_pass(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)

    load_settings()


def test_a_directory_in_place_of_the_file_is_refused(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "freki.toml").mkdir()

    assert "freki.toml is a directory" in refusal(capsys)


@pytest.mark.parametrize(("content", "told"), [(b"\xff", "is not UTF-8 at byte 0"), (None, "cannot be read")])
def test_a_file_that_cannot_be_read_is_named(
    content: bytes | None,
    told: str,
    capsys: pytest.CaptureFixture[str],
    folder: Path,
) -> None:
    file = folder / "freki.toml"
    if content is None:
        # Reading it fails, for root too.
        file.symlink_to("/proc/self/mem")
    else:
        file.write_bytes(content)

    printed = refusal(capsys)

    assert "freki.toml" in printed
    assert told in printed


SIMILARITY = "is more than any text has: the most is 2"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            "CHUNKING__MIN_TOKENS=200 CHUNKING__MAX_TOKENS=100",
            "FREKI_CHUNKING__MAX_TOKENS=100: lower the first or raise",
        ),
        ("CHUNKING__MIN_TOKENS=257", "FREKI_CHUNKING__MIN_TOKENS=257 is above FREKI_CHUNKING__MAX_TOKENS=256"),
        *(
            (
                f"CHUNKING__{kind}__OVERLAP_CHARS=700 CHUNKING__{kind}__MAX_CHARS=700",
                f"FREKI_CHUNKING__{kind}__OVERLAP_CHARS=700 is not below FREKI_CHUNKING__{kind}__MAX_CHARS=700",
            )
            for kind in (name.upper() for name in ChunkingSettings().profiles)
        ),
        ("CHUNKING__CODE__OVERLAP_CHARS=600", "is not below FREKI_CHUNKING__CODE__MAX_CHARS=600"),
        (
            "MODELS__LATE_WINDOW_TOKENS=255",
            "FREKI_CHUNKING__MAX_TOKENS=256 is above FREKI_MODELS__LATE_WINDOW_TOKENS=255",
        ),
        (
            "CONTEXTS__LLM=true CONTEXTS__MIN_CHARS=1201",
            "FREKI_CONTEXTS__MIN_CHARS=1201 is above FREKI_CHUNKING__MARKDOWN",
        ),
        ("PARSING__MAX_UNPACKED_MB=1024", "is not below FREKI_PARSING__MAX_MEMORY_MB=1024"),
        (
            "KAFKA__MAX_MESSAGE_BYTES=600000",
            "FREKI_CLAIMS__INLINE_BYTES=600000 is not below FREKI_KAFKA__MAX_MESSAGE_BYTES=",
        ),
        (
            "KAFKA__CA_FILE=ca.pem",
            "FREKI_KAFKA__CA_FILE is set, but with FREKI_KAFKA__SECURITY=PLAINTEXT nothing is encrypted",
        ),
        ("KAFKA__SECURITY=SASL_PLAINTEXT KAFKA__CERT_FILE=c.pem", "FREKI_KAFKA__SECURITY=SASL_PLAINTEXT nothing is"),
        ("KAFKA__SECURITY=SSL KAFKA__USERNAME=u KAFKA__PASSWORD=p", "FREKI_KAFKA__SECURITY=SSL nobody logs in"),
        ("KAFKA__OAUTH__TOKEN_COMMAND=c", "FREKI_KAFKA__SASL_MECHANISM=SCRAM-SHA-512 none is asked for"),
        ("KAFKA__SECURITY=SASL_SSL KAFKA__OAUTH__TOKEN_FILE=t", "FREKI_KAFKA__OAUTH__… says where tokens come from"),
        ("AUTH__REPLAY_WINDOW_S=60", "FREKI_AUTH__REPLAY_WINDOW_S limits the use of tokens, and without FREKI_AUTH"),
        ("AUTH__MAX_AGE_S=60", "FREKI_AUTH__MAX_AGE_S limits the use of tokens, and without FREKI_AUTH__JWKS"),
        *(
            (f'{name}=["acme/editors"]', f"FREKI_{name} says who may")
            for name in ("SERVE__PUBLISHERS", "SERVE__OPERATORS", "ERASURE__REQUESTERS")
        ),
        (
            "KAFKA__SECURITY=SSL KAFKA__KEY_FILE=key.pem",
            "FREKI_KAFKA__KEY_FILE is the key of no certificate: set FREKI_KAFKA__CERT_FILE",
        ),
        (
            "LOCAL__SINGLE_WORKER=true LOCAL__EMBED_WORKERS=2",
            "FREKI_LOCAL__SINGLE_WORKER has one process that embeds, FREKI_LOCAL__EMBED_WORKERS is 2",
        ),
        ("LOCAL__EMBED_WORKERS=5", "FREKI_LOCAL__EMBED_WORKERS=5 is above FREKI_KAFKA__PARTITIONS=4"),
        (
            "LOCAL__BROKER_PORT=9000 LOCAL__STORE_PORT=9000",
            "FREKI_LOCAL__BROKER_PORT and FREKI_LOCAL__STORE_PORT are both",
        ),
        ("CRAWL__SETTLE_S=6", "FREKI_CRAWL__SETTLE_S=6.0 is above FREKI_CRAWL__SETTLE_LIMIT_S=5.0"),
        ("CRAWL__TIMEOUT_S=5", "FREKI_CRAWL__SETTLE_LIMIT_S=5.0 is not below FREKI_CRAWL__TIMEOUT_S=5.0"),
        ("FEEDBACK__MOST=499", "FREKI_FEEDBACK__MOST_OF_JUDGE=500 is above FREKI_FEEDBACK__MOST=499"),
        ("RETRIEVAL__FEEDBACK=0.2", "set FREKI_FEEDBACK__READ=true, or FREKI_RETRIEVAL__FEEDBACK=0"),
        (
            "RETRIEVAL__RELATED_COSINE=0.7",
            "FREKI_RETRIEVAL__UNRELATED_COSINE=0.74 is not below FREKI_RETRIEVAL__RELATED_COS",
        ),
        ("RETRIEVAL__MIN_SIMILARITY=30", f"FREKI_RETRIEVAL__MIN_SIMILARITY=30.0 {SIMILARITY}"),
        ("RETRIEVAL__EXPAND_SIMILARITY=2.1", f"FREKI_RETRIEVAL__EXPAND_SIMILARITY=2.1 {SIMILARITY}"),
        (
            'RETRIEVAL__PROFILES__1B={"hits":3,"context_tokens":800,"min_similarity":40}',
            f"FREKI_RETRIEVAL__PROFILES__1B__MIN_SIMILARITY=40.0 {SIMILARITY}",
        ),
        (
            "INGEST__DELETED_RETENTION_DAYS=6.9",
            "FREKI_INGEST__DELETED_RETENTION_DAYS: Input should be greater than or equ",
        ),
        (
            "VERTEX_RERANKER__TOKEN=s VERTEX_RERANKER__TOKEN_COMMAND=c",
            "FREKI_VERTEX_RERANKER__TOKEN and FREKI_VERTEX_RERANKER__TOKEN_COMMAND are set",
        ),
        ("RETRIEVAL__RERANKER=REMOTE", "FREKI_RETRIEVAL__RERANKER=REMOTE needs FREKI_REMOTE_RERANKER__URL"),
        ("RETRIEVAL__RERANKER=VERTEX", "FREKI_RETRIEVAL__RERANKER=VERTEX needs FREKI_VERTEX_RERANKER__PROJECT"),
        (
            "RETRIEVAL__RERANKER=LLM LLM__URL=http://host/v1",
            "FREKI_RETRIEVAL__RERANKER=LLM needs FREKI_LLM__MODEL: set it",
        ),
        ('LLM__EXTRA_BODY={"a":[NaN]}', "FREKI_LLM__EXTRA_BODY has NaN"),
        ('LLM__EXTRA_BODY={"a":{"b":-Infinity}}', "FREKI_LLM__EXTRA_BODY has NaN"),
        ('LLM__EXTRA_BODY={"a":1e999}', "FREKI_LLM__EXTRA_BODY has NaN"),
        ('LLM__EXTRA_BODY={"a":"\\ud800"}', "FREKI_LLM__EXTRA_BODY has NaN"),
        (
            "AUDIT__ENABLED=true AUDIT__KEY_FILE=k AUDIT__DIRECTORY=log TELEMETRY__TRACE_DIR=x/../log",
            "FREKI_TELEMETRY__TRACE_DIR=x/../log is the folder of the audit log",
        ),
        (
            "AUDIT__ENABLED=true AUDIT__KEY_FILE=k TELEMETRY__TRACE_DIR=.freki/audit",
            "FREKI_TELEMETRY__TRACE_DIR=.freki/audit is the folder of the audit log",
        ),
        ("VERTEX_RERANKER__TOKEN_COMMAND='", "FREKI_VERTEX_RERANKER__TOKEN_COMMAND is no command"),
        ("KAFKA__OAUTH__TOKEN_COMMAND='", "FREKI_KAFKA__OAUTH__TOKEN_COMMAND is no command"),
        (
            'RELAYS=[{"topic":"t","format":"debezium","document_id":"/a","content":"/b","deleted_types":["x"]}]',
            "relay of t: deleted_types fit no event",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_named_with_the_fix(
    settings: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in settings.split():
        name, value = each.split("=", 1)
        monkeypatch.setenv(f"FREKI_{name}", value)

    printed = refusal(capsys)

    assert told in printed
    assert printed.endswith("in the environment or in freki.toml")
    assert printed.count("freki: ") == 1


@pytest.mark.parametrize(
    "settings",
    [
        "CHUNKING__MIN_TOKENS=256",
        "CHUNKING__CODE__OVERLAP_CHARS=599",
        "RETRIEVAL__RERANKER=REMOTE REMOTE_RERANKER__URL=http://host",
        "AUDIT__ENABLED=true AUDIT__KEY_FILE=k AUDIT__DIRECTORY=log TELEMETRY__TRACE_DIR=log/traces",
        "MODELS__LATE_WINDOW_TOKENS=256",
        "CONTEXTS__MIN_CHARS=100000",
        "CONTEXTS__LLM=true CONTEXTS__MIN_CHARS=1200",
        "KAFKA__MAX_MESSAGE_BYTES=100000 CLAIMS__INLINE_BYTES=99999",
        "KAFKA__SECURITY=SSL KAFKA__CERT_FILE=both.pem",
        "KAFKA__PASSWORD=for-other-environments",
        "KAFKA__SECURITY=SASL_SSL KAFKA__SASL_MECHANISM=OAUTHBEARER KAFKA__OAUTH__TOKEN_FILE=t",
        "LOCAL__EMBED_WORKERS=4",
        "LOCAL__BROKER_PORT=9000",
        "FEEDBACK__MOST=500",
        "RETRIEVAL__FEEDBACK=0.2 FEEDBACK__READ=true",
        "RETRIEVAL__MIN_SIMILARITY=2",
        "RETRIEVAL__MIN_SIMILARITY=2.5 RETRIEVAL__RELATED_COSINE=0.8",
        "INGEST__DELETED_RETENTION_DAYS=7",
        'RELAYS=[{"topic":"t","format":"cloudevents","document_id":"/a","content":"/b","deleted_types":["x"]}]',
    ],
)
def test_settings_that_go_together_are_taken(settings: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in settings.split():
        name, value = each.split("=", 1)
        monkeypatch.setenv(f"FREKI_{name}", value)

    load_settings()


def test_of_a_profile_of_chunks_one_size_may_be_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "freki.toml").write_text("[chunking.html]\noverlap_chars = 0\n", encoding="utf-8")
    monkeypatch.setenv("FREKI_CHUNKING__PDF__MAX_CHARS", "900")

    chunking = load_settings().chunking

    assert chunking.pdf == ChunkProfile(max_chars=900, overlap_chars=150)
    assert chunking.html == ChunkProfile(max_chars=1200, overlap_chars=0)


def test_a_deletion_is_remembered_at_least_as_long_as_an_older_change_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_INGEST__DELETED_RETENTION_DAYS", "7")

    settings = load_settings()

    topics = topics_of(settings)
    waiting = [topics.documents, *topics.chunks.values(), *topics.contextual_chunks.values()]
    assert max(topic.retention_ms for topic in waiting) == settings.ingest.deleted_retention_days * 86_400_000


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("KAFKA__DELIVERY_TIMEOUT_S", "inf"),
        ("KAFKA__DELIVERY_TIMEOUT_S", "2000001"),
        ("MILVUS__TIMEOUT_S", "1e308"),
        ("SERVE__MAX_BODY_MB", "inf"),
        ("PARSING__MAX_MEMORY_MB", "1000000000001"),
        ("INGEST__DELETED_RETENTION_DAYS", "inf"),
        ("RETRIEVAL__CACHE_MB", "9" * 30),
        ("LIMITS__DOCUMENTS", "9" * 30),
        ("KAFKA__MAX_MESSAGE_BYTES", "2147483648"),
        ("KAFKA__REPLICATION", "32768"),
        ("MODELS__THREADS", "1025"),
        ("KAFKA__TOPIC_PREFIX", "a/b"),
        ("KAFKA__TOPIC_PREFIX", " "),
        ("MILVUS__URI", "http://store:99999"),
        ("MILVUS__URI", "http://[::1"),
        ("TENANT", " "),
        ("TENANT", "acme/editors"),
        ("TENANT", "a\tb"),
    ],
)
def test_what_no_part_could_use_is_refused_at_the_start(
    setting: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"FREKI_{setting}", value)

    told = refusal(capsys)

    assert told.startswith(f"freki: FREKI_{setting}: ")
    assert told.endswith("correct it in the environment or in freki.toml")


RELAY = '[{"topic": "t", "format": "cloudevents", "document_id": "/a", "content": "/b", %s}]'
RULE = '[{"name": "old", "after_days": 1, "tenant": "%s"}]'


@pytest.mark.parametrize(
    ("variable", "value", "names"),
    [
        ("FREKI_FOLDERS", '[{"path": ""}]', "FREKI_FOLDERS__0__PATH: it is empty"),
        ("FREKI_FOLDERS", '[{"path": "a", "root": ""}]', "FREKI_FOLDERS__0__ROOT: it is empty"),
        ("FREKI_FOLDERS", '[{"path": "a", "name": ""}]', "FREKI_FOLDERS__0__NAME: "),
        ("FREKI_FOLDERS", '[{"path": "a", "tenant": "acme/hr"}]', "FREKI_FOLDERS__0__TENANT: no name of a tenant"),
        ("FREKI_FOLDERS", '[{"path": "a", "priority": 2147483648}]', "FREKI_FOLDERS__0__PRIORITY: "),
        ("FREKI_RELAYS", RELAY % '"tenant": " "', "FREKI_RELAYS__0__TENANT: no name of a tenant"),
        ("FREKI_RELAYS", RELAY % '"priority": 2147483648', "FREKI_RELAYS__0__PRIORITY: "),
        ("FREKI_RETENTION__RULES", RULE % "", "FREKI_RETENTION__RULES__0__TENANT: no name of a tenant"),
    ],
)
def test_a_table_of_a_list_says_nothing_that_documents_cannot_have(
    variable: str, value: str, names: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)

    assert refusal(capsys).startswith(f"freki: {names}")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("KAFKA__DELIVERY_TIMEOUT_S", "2000000"),
        ("SERVE__MAX_BODY_MB", "1e12"),
        ("LIMITS__PUBLISHED_BYTES_PER_DAY", "1000000000000000"),
        ("KAFKA__TOPIC_PREFIX", "Team-1.freki_a"),
        ("MILVUS__URI", "unix:/run/milvus.sock"),
        ("MILVUS__URI", "./milvus.db"),
        ("MILVUS__URI", "https://[::1]:19530"),
        ("TENANT", "Böse & Söhne"),
    ],
)
def test_large_numbers_and_unusual_names_that_can_be_used_are_taken(
    setting: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"FREKI_{setting}", value)

    load_settings()
