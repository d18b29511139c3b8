"""Every command and every snippet of every page runs as it stands there; what cannot is told, and parsed."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner
from made_pages import make_pages_world, make_readers

from lmtune.cli.main import app
from lmtune.collections.docstrings import NAMESPACES
from lmtune.errors import InputError
from lmtune.io.frames import as_run
from lmtune.io.runs import read_run
from lmtune.models.model import MODELS, OF_FIELDS
from lmtune.rerank.sources import rank_docnos

ROOT = Path(__file__).resolve().parents[1]
HISTORY = {"CHANGELOG.md": "names options that are gone"}
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted(
        {
            *ROOT.glob("*.md"),
            *ROOT.glob("[!.]*/README.md"),
            *ROOT.glob("experiments/*/*.md"),
            *(ROOT / "docs").rglob("*.md"),
        }
    )
    if path.name not in HISTORY
}
RECORDS = {
    "FINDINGS.md",
    "benchmarks/README.md",
    *(page for page in PAGES if page.startswith("experiments/")),
}
"""Pages whose commands took minutes to hours; their tables name some without all that they need."""

GPU, LONG, CLUSTER = "a GPU", "minutes to hours", "a Dask cluster (tests/test_parallel.py has one)"
BUCKET = "object storage (tests/io/test_remote.py has some in memory)"
LUCENE = "Java and an index of Lucene's (tests/index/lucene has both)"
NOT_RUN = {
    "README.md": {
        "judges qrels.txt model-labels.txt": "labels of the reader's own model",
        "check-run engine.run": "a run of the reader's own engine",
        "tune-engine": "a running engine (tests/engines/test_live.py has a mock)",
    },
    "docs/howto/cluster.md": {
        "tune my-collection --workers 8": "eight processes (tests/test_parallel.py has two)",
        "index my-collection --shards 4": CLUSTER,
        "tune my-collection --index sharded:indexes/mine": CLUSTER,
        "tune s3://bucket/my-collection": BUCKET,
        "evaluate s3://bucket/qrels.txt": BUCKET,
    },
    "docs/howto/deploy.md": {
        "check-run cluster.run": "a run of the reader's own cluster",
        'search my-collection "bird flu"': "a document of the reader's own",
    },
    "docs/howto/fuse.md": {"check-run cluster.run": "a run of the reader's own cluster"},
    "docs/howto/evaluate.md": {
        "judges qrels.txt gpt.txt": "labels of the reader's own models",
        "judge qrels.txt baseline.run": "runs that are not judged whole",
        "evaluate qrels.ndeval.txt": "judgments of the reader's own subtopics",
    },
    "docs/howto/gpu.md": {"rerank train": GPU, "rerank compare": GPU},
    "docs/howto/live.md": {
        "tune-engine": "a running engine (tests/engines/test_live.py has a mock)",
        "report results": "what tune-engine wrote (tests/engines/test_live.py reports it)",
    },
    "docs/howto/lucene.md": {"tune --index PATH": LUCENE, "index my-collection": LUCENE},
    "docs/howto/rerank.md": {
        "rerank apply decoder:MODEL": "a causal language model",
        "rerank apply model.json": "a model of another program",
    },
    "docs/howto/tune.md": {"tune irds:beir/nfcorpus/test": "a download"},
    "docs/text.md": {"rerank apply MODEL": "the run, which stands above"},
}
"""Of whole commands, those that are parsed only, by how they begin, and what they would need."""

_PAPER = [f"index --documents {name}/ --output indexes/{name.lower()}" for name in ("AP", "WSJ", "WT10g")]
FIRST = {
    "docs/howto/explore.md": ["tune my-collection --output results/mine"],
    "docs/howto/trec.md": _PAPER,
    "docs/howto/tune.md": _PAPER[:2],
}
"""What a page takes as done: told on another, or further down."""

BEFORE_SNIPPETS = {
    "docs/howto/rerank.md": [
        "rerank train my-collection --run run.txt --output model",
        "rerank export model --to onnx --output onnx",
        "rerank features my-collection --run run.txt --output rows.txt",
    ]
}
"""The commands of a page that make what its snippets read."""

READERS = {
    "docs/text.md": ["model"],
    "docs/howto/rerank.md": ["MODEL", "cross-encoder/ms-marco-MiniLM-L6-v2"],
    "docs/losses.md": ["a-model"],
}

_COMMENT = re.compile(r"\s+# .*$")
_SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^ {4}lmtune(?P<line>| .*)$|`lmtune\s(?P<words>[^`]+)`", re.MULTILINE)
_INDENTED = re.compile(r"(?:^ {4}.*\n|^\n(?= {4}))+", re.MULTILINE)


class Command(NamedTuple):
    """What a page says after ``lmtune``, and whether it stands alone: as a line of code, or in a cell."""

    line: str
    alone: bool


def commands(text: str) -> list[Command]:
    """Return a page's commands in their order."""
    text = _FENCED.sub("", _SHELL.sub(lambda own: textwrap.indent(own[1], "    "), text))
    found = []
    for own in _COMMAND.finditer(text):
        start = text.rfind("\n", 0, own.start()) + 1
        line = own["words"] if own["line"] is None else _COMMENT.sub("", own["line"])
        found.append(Command(" ".join(line.split()), own["line"] is not None or text[start] == "|"))
    return found


def snippets(text: str) -> list[str]:
    """Return what is written in Python: fenced, or indented and beginning with an import."""
    fenced = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    blocks = (
        re.sub(r"^ {4}", "", own, flags=re.MULTILINE) for own in _INDENTED.findall(_FENCED.sub("", text))
    )
    return [*fenced, *(own.lstrip("\n") for own in blocks if re.match(r"\n*(?:from|import) ", own))]


def reason(page: str, command: str) -> str | None:
    """Return why a command is not run here."""
    if page in RECORDS:
        return LONG
    return next((why for start, why in NOT_RUN.get(page, {}).items() if command.startswith(start)), None)


def resolved(command: str) -> tuple[Any, click.Context, list[str]]:
    """Return the command, or the group, that the real parser finds, and the words that follow."""
    found: Any = app
    context, words = found.make_context("lmtune", [], resilient_parsing=True), shlex.split(command)
    while words and hasattr(found, "resolve_command") and words[0] != "...":
        name, found, words = found.resolve_command(context, words)
        if found is None:
            raise click.UsageError(f"no such command: {command}")
        context = found.context_class(found, info_name=name, parent=context)
    return found, context, words


def is_whole(command: Command) -> bool:
    """Return whether a command can be run: one that stands alone, or that has the arguments it can have.

    Running text names commands and options too, as in ``lmtune fuse --from``.
    """
    if command.alone or "..." in command.line.split():
        return command.alone
    try:
        found, context, words = resolved(command.line)
        if hasattr(found, "resolve_command"):
            return False
        values, _, _ = found.make_parser(context).parse_args(words)
    except (
        click.UsageError,
        InputError,
    ):  # of an option without its value, or a wrong one, which `check_parsed` tells
        return False
    given = [values.get(own.name) for own in found.params if isinstance(own, click.Argument)]
    return given == [] or any(own and isinstance(own, str | tuple) for own in given)


def check_parsed(command: Command, *, whole: bool) -> None:
    """Have the real parser read a command; of one that is not whole, the options that it names."""
    found, context, words = resolved(command.line)
    if hasattr(found, "resolve_command"):
        assert words[:1] in ([], ["..."])
    elif whole:
        found.make_context(context.info_name, words)
    else:
        flags = {flag for own in found.params for flag in (*own.opts, *own.secondary_opts)}
        assert {own for own in words if own[:2] == "--"} <= flags
        with contextlib.suppress(click.BadOptionUsage):
            found.make_parser(context).parse_args(words)


def run(command: str) -> str:
    """Do a command, and what the shell would do with its output; return what it prints."""
    line, _, target = command.partition(" > ")
    shown = CliRunner().invoke(app, shlex.split(line))
    statuses = (0, 3) if "--require" in line else (0,)  # the made runs may fail a requirement
    assert shown.exit_code in statuses, (command, shown.stderr, shown.exception)
    if target:
        Path(target).write_text(shown.stdout)
    return shown.stdout


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("pages")
    make_pages_world(home)
    return home


@pytest.fixture
def home(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """Go to a folder with what the pages speak of; make the large collections small."""
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    page = request.node.callspec.params["page"]
    if page in READERS:
        make_readers(tmp_path, *READERS[page])
    if page != "docs/howto/python.md":  # which cuts pydocs' topics at the thousandth
        for package in NAMESPACES:
            monkeypatch.setitem(
                NAMESPACES, package, ("numpy.linalg", "numpy.fft")[: package == "numpy" and 2]
            )
    monkeypatch.setattr("lmtune.cli.explore.serve_page", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_text_runs(home: Path, shown: str) -> None:
    assert shown.split()[:3] == ["run", "map", "ndcg_cut_10"]
    assert len(shown.splitlines()) == 1 + len(["first", "features", "text"])
    assert set(read_run(home / "fused.run")) == set(read_run(home / "first.run"))
    features, text = (read_run(home / f"{name}.run") for name in ("features", "text"))
    changed = 0
    for topic, own in features.items():
        before, after = rank_docnos(own), rank_docnos(text[topic])
        assert after[20:] == before[20:]
        assert set(after[:20]) == set(before[:20])
        changed += after[:20] != before[:20]
    assert changed > 6


def to_run(page: str) -> list[str]:
    """Return the commands of a page that are run here."""
    return [own.line for own in commands(PAGES[page]) if reason(page, own.line) is None and is_whole(own)]


RUNNING = [page for page, text in PAGES.items() if "lmtune " in text and to_run(page)]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page != "topics/README.md")) for page in RUNNING]
)
@pytest.mark.usefixtures("one_thread")
def test_its_commands_run(page: str, home: Path) -> None:
    for command in FIRST.get(page, []):
        run(command)
    shown = [run(own) for own in to_run(page)]
    if page == "docs/text.md":
        check_text_runs(home, shown[-1])
    if page == "docs/howto/fuse.md":
        assert set(read_run(home / "new-fused.run")) == set(read_run(home / "new-dense.run"))
    if page == "docs/howto/hybrid.md":
        hybrid = read_run(home / "hybrid.run")
        assert set(hybrid) == set(read_run(home / "dense-test.run")) == set(read_run(home / "bm25-test.run"))
        assert not set(hybrid) & set(read_run(home / "dense-train.run"))
        [compared] = [text for text in shown if text.startswith("2 runs compared")]
        assert re.search(r"^hybrid +\S+ ", compared, re.MULTILINE)
    if page in ("qrels/README.md", "topics/README.md"):
        folder = Path(page).parent.name
        assert (home / folder / f"{folder}.pydocs.txt").is_file()


@pytest.mark.parametrize("page", PAGES)
def test_what_it_does_not_run_is_parsed(page: str) -> None:
    found = commands(PAGES[page])
    left = [own for own in found if reason(page, own.line) is not None or not is_whole(own)]
    for own in left:
        try:
            check_parsed(own, whole=page not in RECORDS and is_whole(own))
        except Exception as error:
            pytest.fail(f"{page}: lmtune {own.line}: {getattr(error, 'message', error)}")
    starts = set(NOT_RUN.get(page, {}))
    assert {start for start in starts if any(own.line.startswith(start) for own in left)} == starts


@pytest.mark.parametrize("line", ["fuse --search", "fuse q a b --certify 0.1 --seconds 3", "tun pydocs"])
def test_a_wrong_command_in_running_text_is_found(line: str) -> None:
    [command] = commands(f"Say `lmtune {line}`.")
    assert not is_whole(command)
    with pytest.raises((AssertionError, click.UsageError, InputError)):
        check_parsed(command, whole=False)


def test_every_page_is_looked_at() -> None:
    others = {"results", "site", "build", "dist", "tests"}
    found = {path.relative_to(ROOT) for path in ROOT.rglob("*.md")}
    kept = {str(path) for path in found if path.parts[0][0] != "." and path.parts[0] not in others}
    assert set(PAGES) | set(HISTORY) == kept
    assert {*NOT_RUN, *FIRST, *READERS, *RECORDS} <= set(PAGES)
    assert len(RUNNING) >= 14
    assert sum(len(to_run(page)) for page in PAGES) > 80


WRITTEN = [page for page, text in PAGES.items() if snippets(text)]


def questions() -> dict[str, object]:
    """Return the names that the trainer's snippet takes as given."""
    return {
        "questions": ["what is a bear", "what eats a whale"],
        "lists_of_texts": [["a bear lives", "the sea", "paris"], ["a panda eats", "the whale"]],
        "lists_of_grades": [[1, 0, 0], [0, 1]],
    }


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(own, marks=[pytest.mark.slow] * (own in ("docs/howto/python.md", *BEFORE_SNIPPETS)))
        for own in WRITTEN
    ],
)
@pytest.mark.usefixtures("one_thread", "home")
def test_its_snippets_run(page: str) -> None:
    for command in BEFORE_SNIPPETS.get(page, []):
        assert command in to_run(page)
        run(command)
    scope: dict[str, Any] = questions()
    printed = io.StringIO()
    for block in snippets(PAGES[page]):
        if "CrossEncoderTrainer" in block:
            for needed in ("sentence_transformers", "datasets", "accelerate"):
                pytest.importorskip(needed, reason="what the extra 'text' brings is not installed")
        for needed in ("ray", "onnxruntime"):
            if f"import {needed}" in block:
                pytest.importorskip(needed)
        with contextlib.redirect_stdout(printed):
            exec(block, scope)
        if "bound = song" in block:
            assert scope["same"].item() == pytest.approx(scope["loss"].item(), rel=1e-6)
            assert -1 <= scope["bound"].item() <= 0
    assert " object at 0x" not in printed.getvalue()
    assert "<generator" not in printed.getvalue()
    if page == "docs/howto/python.md":
        chosen = scope["tuner"].best_params_
        assert 0 < chosen["lambda"] < 1
        assert chosen["mu"] > 0
    if page == "docs/howto/rerank.md":
        from lmtune.rerank.data import RankingData
        from lmtune.rerank.reranker import load_model

        expected = load_model("model").score(RankingData.read("rows.txt"))
        assert scope["scores"][:, 0] == pytest.approx(expected, abs=1e-5)
    if page == "docs/text.md":
        second, third = (as_run(scope[name]) for name in ("second", "third"))
        for topic, own in second.items():
            assert rank_docnos(third[topic])[20:] == rank_docnos(own)[20:]
        assert second != third
        assert set(as_run(scope["fused"])) == set(second)


def test_the_makefile_has_the_targets_that_the_readme_names() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make (\w+)", PAGES["README.md"]):
        assert f"\n{target}:" in makefile


def test_the_claims_are_counted() -> None:
    page = PAGES["docs/claims.md"]
    kinds = re.findall(r"[^|]+", page.split("| paper | claims |")[1].split("\n")[0].strip())
    verdicts = [kind.strip() for kind in kinds]
    sections = {title: text for title, _, text in (part.partition("\n") for part in page.split("\n## ")[1:])}
    rows = []
    for title, text in sections.items():
        counts = [len(re.findall(rf"^\| [^|]+ \| {verdict} \|", text, re.MULTILINE)) for verdict in verdicts]
        printed = re.search(rf"^\| \[{title}\]\S+ \|(.+)\|$", page, re.MULTILINE)
        assert printed is not None
        rows.append([int(cell) for cell in printed[1].split("|")])
        assert rows[-1] == [sum(counts), *counts], title
        assert sum(counts) == text.count("\n| ") - 1, title
    assert f"| all | {' | '.join(str(sum(column)) for column in zip(*rows, strict=True))} |" in page


def test_every_model_has_its_formula() -> None:
    section = PAGES["docs/computes.md"].partition("\n## Models\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `") and "--model" not in line]
    names = {name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])}
    assert names == {*MODELS, *(f"{kind}:..." for kind in OF_FIELDS)}
