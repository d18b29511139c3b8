# docker build -t lmtune .
# docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" -e HOME=/tmp lmtune tune my-collection
FROM python:3.12-slim

RUN useradd --create-home lmtune && install -d -o lmtune /opt/lmtune && install -d -m 1777 /work
USER lmtune
# The user's own files: compiled kernels are kept beside the source.
WORKDIR /opt/lmtune/source
COPY --chown=lmtune . .
RUN python -m venv /opt/lmtune/venv \
    && /opt/lmtune/venv/bin/pip install --no-cache-dir --constraint constraints.txt '.[report]'

WORKDIR /work
ENTRYPOINT ["/opt/lmtune/venv/bin/lmtune"]
CMD ["--help"]
