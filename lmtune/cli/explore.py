"""``lmtune explore`` and ``judge``: pages that explore parameters and collect judgments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import note, say
from lmtune.cli.parameters import Ranges
from lmtune.cli.screen import stages
from lmtune.collections.collection import Collection, named_collections
from lmtune.collections.texts import open_texts
from lmtune.errors import InputError, require_modules
from lmtune.explorer.opening import Shown, open_choices, open_collection, open_runs
from lmtune.explorer.server import Answering, Labelling, Session, Sheet, serve
from lmtune.io.folders import check_file
from lmtune.measures.judges.selection import Entry, check_unlabelled, pairs_to_judge, read_sheet, start_sheet
from lmtune.options import usual
from lmtune.tuning.choices.stored import is_choices

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class _Serving:
    """Page."""

    host: str = usual(_LOOPBACK, "Address to serve the page on; other than localhost the network can see it.")
    port: int = usual(0, "Port; 0 for any free one.", low=0, high=65535)
    browser: bool = usual(True, "Open the page in a browser.")


def _check_servers(command: str) -> None:
    """Raise `MissingExtraError` if the web server is not installed."""
    require_modules(command, "explore", "starlette", "uvicorn")


def serve_page(session: Answering, serving: _Serving) -> None:
    """Serve a page until Ctrl-C, and print its address."""
    if serving.host not in (_LOOPBACK, "localhost", "::1"):
        note(
            f"the page is served on {serving.host}: everyone on that network who has its address can read it"
        )
    try:
        serve(session, serving.host, serving.port, lambda address: _announce(address, serving.browser))
    except KeyboardInterrupt:
        note("stopped serving the page")


def _announce(address: str, browser: bool) -> None:
    say(f"{address}\n")
    note("press Ctrl-C to stop")
    if browser:
        import webbrowser

        webbrowser.open(address)


def explore(
    sources: Annotated[
        list[str] | None,
        "pydocs, a folder or irds:ID; or judgments, then two or more runs, as FILE or NAME=FILE.",
        "DATASET",
    ],
    collection: Collection,
    shown: Shown,
    ranges: Ranges,
    serving: _Serving,
) -> None:
    """Explore parameters or fusion weights in the browser.

    Examples
    --------
    lmtune explore pydocs
    lmtune explore qrels.txt bm25.run dense.run
    """
    _check_servers("explore")
    with stages() as progress:
        if sources is not None and len(sources) > 1:
            if len(sources) < 3:
                raise InputError(
                    "too few runs to fuse", value=sources, accepted="judgments and two runs or more"
                )
            session = Session(open_runs([Path(name) for name in sources], shown, progress=progress))
        else:
            [named] = named_collections(sources or [], collection)
            if shown.results is not None and is_choices(shown.results):
                session = open_choices(named, shown, ranges.of, progress=progress)
            else:
                session = Session(open_collection(named, shown, ranges.of, progress=progress))
    serve_page(session, serving)


@dataclass(frozen=True)
class _Judging:
    """Judging."""

    output: Path = usual(
        ...,
        "Write the pairs to this file, with ? for each gain; a file with labels is not replaced.",
        metavar="FILE",
    )
    measure: str = usual("P@10", "Measure of the comparison: P@k, RBP or nDCG@k.", flag="--measure -m")
    number: int = usual(50, "Number of pairs.", flag="--number -n", low=1)
    page: bool = usual(False, "Judge in the browser, with the keyboard; continues an existing file.")
    collection: str | None = usual(
        None,
        "Show topics and documents of this collection on the page: pydocs, a folder or irds:ID.",
        metavar="DATASET",
    )


def judge(
    qrels: Annotated[Path, "The judgments so far.", "QRELS"],
    runs: Annotated[list[Path], "Runs; the first is compared with the others.", "RUN"],
    judging: _Judging,
    serving: _Serving,
) -> None:
    """Select the query-document pairs to judge next.

    Notes
    -----
    The weight of a pair is the change in the runs' differences from the first run (for one run: in its
    measure) if the document had gain 1. Topics without any judgment are skipped. Replace each ? in the
    file by a gain, or judge in the browser (--page), which saves each label at once. Then append the file
    to the judgments.

    Examples
    --------
    lmtune judge qrels.txt bm25.run dense.run --output to-judge.txt
    lmtune judge qrels.txt bm25.run --output pairs.txt --page --collection DIR
    """
    if judging.page:
        _check_servers("judge --page")
    elif judging.collection is not None:
        raise InputError("--collection without --page", value=judging.collection, accepted="both, or neither")
    check_file(judging.output, reads=[qrels, *runs])
    if judging.page and judging.output.exists():
        read_sheet(judging.output)
    else:
        check_unlabelled(judging.output)
        _choose(qrels, runs, judging)
    if judging.page:
        _serve(judging, serving)


def _choose(qrels: Path, runs: list[Path], judging: _Judging) -> None:
    found = pairs_to_judge(qrels, runs, judging.measure, number=judging.number)
    start_sheet(judging.output, [Entry(pair.topic, pair.docno) for pair in found.pairs])
    topics = len({pair.topic for pair in found.pairs})
    undecided = f"the uncertainty of {found.measure} due to {found.unjudged:,} unjudged pairs"
    between = f" between {found.runs[0]} and {', '.join(found.runs[1:])}" if found.runs[1:] else ""
    say(
        f"{len(found.pairs)} pairs of {topics} topics cause {found.share:.0%} of {undecided}{between} "
        f"({found.pooled:.0%} if chosen by best rank)\n"
    )
    note(f"wrote {judging.output}")


def _serve(judging: _Judging, serving: _Serving) -> None:
    topics, texts = {}, None
    if judging.collection is not None:
        with stages() as progress:
            collection = Collection(judging.collection)
            dataset = collection.load(("documents", "topics"))
            topics, texts = dataset.topics, open_texts(collection, dataset, progress=progress)
    serve_page(Labelling(Sheet(judging.output, topics, texts)), serving)
    entries = read_sheet(judging.output)
    done = sum(entry.label is not None for entry in entries)
    note(f"{done} of {len(entries)} pairs of {judging.output} are judged")
