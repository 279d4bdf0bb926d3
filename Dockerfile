# AFL Stream without any program: evaluator, agents, audit, dashboard and the command line are this one image with other
# arguments. One's own AFL and handlers are mounted at /app, or added by an image FROM this one.
FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS build

# What the services of a deployment need; left out are parquet, claude, llm, mcp and editors.
ARG EXTRAS=dashboard,encryption,metrics,mongodb,otel,registry

WORKDIR /build

# Whatever is installed, here and below, has a digest in constraints/: pip refuses other files, and what is not listed. It
# is brought up to date first, because older ones do not take digests from a file of constraints.
COPY constraints/image.txt constraints/run-hashed.txt ./constraints/
RUN pip install --no-cache-dir --require-hashes --only-binary :all: --requirement constraints/image.txt

# Only what the package is built of.
COPY pyproject.toml README.md LICENSE ./
COPY afl ./afl
COPY afl_stream ./afl_stream
COPY schemas ./schemas
COPY topics ./topics
RUN python -m hatchling build --target wheel --directory /wheels \
    && wheel="$(echo /wheels/*.whl)" \
    && digest="$(sha256sum "$wheel" | cut -d " " -f 1)" \
    && echo "afl-stream[${EXTRAS}] @ file://$wheel --hash=sha256:$digest" > /wheels/requirements.txt \
    && python -m venv --without-pip /opt/afl-stream \
    && pip --python /opt/afl-stream/bin/python install --no-cache-dir --require-hashes --only-binary :all: \
        --constraint constraints/run-hashed.txt --requirement /wheels/requirements.txt \
    && cyclonedx-py environment --output-reproducible --output-file /opt/afl-stream/sbom.cdx.json \
        /opt/afl-stream/bin/python

FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="AFL Stream" \
    org.opencontainers.image.description="A workflow runtime for Kafka: evaluators, agents, audits, dashboard" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"

# A number, so that Kubernetes can tell that it is not root.
RUN groupadd --system --gid 10001 afl \
    && useradd --system --uid 10001 --gid afl --home-dir /var/lib/afl-stream --create-home afl
COPY --from=build /opt/afl-stream /opt/afl-stream
COPY LICENSE /usr/share/doc/afl-stream/
COPY deploy/docker/healthcheck.py deploy/docker/dashboard_tokens.py /usr/local/lib/afl-stream/

# The audit's file, and a store where no AFL_STORE_URL is set; a volume there keeps its owner.
ENV PATH=/opt/afl-stream/bin:$PATH \
    AFL_EMBEDDED_DATA_DIR=/var/lib/afl-stream \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /app
USER 10001:10001
VOLUME /var/lib/afl-stream

# /health/ready where AFL_METRICS_PORT is set, HEALTH_URL where that is; else the container runs a command.
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=4 \
    CMD ["python", "/usr/local/lib/afl-stream/healthcheck.py"]

ENTRYPOINT ["afl-stream"]
CMD ["--help"]
