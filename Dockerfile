# docker build -t lmtune .
# docker run --rm -v "$PWD:/home/lmtune/work" --user "$(id -u):$(id -g)" -e HOME=/tmp lmtune tune my-collection
FROM python:3.12-slim

RUN useradd --create-home lmtune
USER lmtune
# A virtual environment of the user's own: compiled kernels are kept beside the source.
RUN python -m venv /home/lmtune/venv
COPY --chown=lmtune . /home/lmtune/source
RUN cd /home/lmtune/source \
    && /home/lmtune/venv/bin/pip install --no-cache-dir --constraint constraints.txt .

WORKDIR /home/lmtune/work
ENTRYPOINT ["/home/lmtune/venv/bin/lmtune"]
CMD ["--help"]
