# AFL Stream with its example: evaluator, agents, audit and the command line are this one image with other arguments.
FROM python:3.12-slim

WORKDIR /srv/afl-stream

# Only what the package is built of; versions are those of constraints/run.txt.
COPY pyproject.toml README.md LICENSE ./
COPY constraints/run.txt ./constraints/
COPY afl ./afl
COPY afl_stream ./afl_stream
COPY schemas ./schemas
COPY topics ./topics
RUN pip install --no-cache-dir --constraint constraints/run.txt '.[mongodb]' \
    && useradd --system --uid 10001 --home-dir /var/lib/afl-stream --create-home afl

COPY examples ./examples

# The audit's file, and a store where no AFL_STORE_URL is set; a volume there keeps its owner.
ENV AFL_EMBEDDED_DATA_DIR=/var/lib/afl-stream \
    PYTHONUNBUFFERED=1
USER afl
VOLUME /var/lib/afl-stream

ENTRYPOINT ["afl-stream"]
CMD ["--help"]
