"""Generated pages of the site.

A line ``{{ FILE }}`` includes a text of the repository. Pages of commands come from their help, pages of the
Python reference from the ``__init__.pyi`` of public packages.
"""

from __future__ import annotations

import ast
import inspect
import posixpath
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from lmtune.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENTS = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/README.md"))
PROTOCOLS = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/PROTOCOL.md"))
HOMES = {
    "README.md": "index.md",
    "FINDINGS.md": "findings.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "architecture.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "experiments/README.md": "experiments/index.md",
    "course/README.md": "course/index.md",
    **{f"course/{path.name}": f"course/{path.stem}.md" for path in (ROOT / "course").glob("*.ipynb")},
    **{f"experiments/{name}/README.md": f"experiments/{name}.md" for name in EXPERIMENTS},
    **{f"experiments/{name}/PROTOCOL.md": f"experiments/{name}-protocol.md" for name in PROTOCOLS},
}
"""Page of the site for each text of the repository."""

OTHER = "Errors"
TASKS = {
    "Tune": ("tuning",),
    "Measure and compare": ("measures",),
    "Fuse": ("fusion",),
    "Rerank": ("rerank",),
    "Losses": ("losses",),
    "Collections and indexes": ("collections", "index", "io"),
    "Models and candidates": ("models", "candidates"),
    "Tables and pictures": ("report",),
    OTHER: (),
}
"""Page of the Python reference -> the rooms whose public names it documents."""

BOOSTS = {
    "howto/": 3.0,
    "start.md": 3.0,
    "course/": 0.3,
    "experiments/": 0.3,
    "changelog.md": 0.3,
    "architecture.md": 0.3,
}
"""Weight of pages in the search, by the start of their path; commands have 4, other pages 1."""

_INCLUDED = re.compile(r"^\{\{ (\S+) \}\}$", re.MULTILINE)
_LINK = re.compile(r"(\]\(|src=\")(?![a-z]+:|#)([^)\s#\"]+)")
_CODE_OR_LESS = re.compile(r"(`[^`]*`)|<")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Insert the generated pages where the navigation names their folders."""
    folders = {
        "commands/": list(command_pages()),
        "python/": list(python_pages()),
        "experiments/": list(experiment_pages()),
    }
    notebooks = sorted(f"course/{path.stem}.md" for path in (ROOT / "course").glob("*.ipynb"))
    entries = {folder: [{name: path} for name, path, _ in pages] for folder, pages in folders.items()}
    config.nav = with_pages(config.nav, {**entries, "course/": ["course/index.md", *notebooks]})
    config.extra["generated"] = {path: text for pages in folders.values() for _, path, text in pages}
    return config


def with_pages(nav: Any, entries: dict[str, list[Any]]) -> Any:
    """Return the navigation with each folder replaced by the entries of its pages."""
    if isinstance(nav, list):
        return [with_pages(entry, entries) for entry in nav]
    if isinstance(nav, dict):
        return {title: with_pages(entry, entries) for title, entry in nav.items()}
    return entries.get(nav, nav)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the examples that texts link to."""
    for path, text in config.extra.pop("generated").items():
        files.append(File.generated(config, path, content=text))
    for path in sorted((ROOT / "examples").iterdir()):
        # the configuration excludes *.py
        file = File.generated(
            config, f"examples/{path.name}", abs_src_path=str(path), inclusion=InclusionLevel.INCLUDED
        )
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Include the texts that the page names, with links that work from here."""
    here = page.file.src_uri
    boost = next((boost for start, boost in BOOSTS.items() if here.startswith(start)), None)
    if boost is not None:
        page.meta["search"] = {"boost": boost}
    markdown = relinked(markdown, f"docs/{here}", here)
    return _INCLUDED.sub(lambda match: included(match[1], here), markdown)


def included(name: str, page: str) -> str:
    """Return a text of the repository, with links that work on a page of the site."""
    return relinked((ROOT / name).read_text(encoding="utf-8"), name, page)


def relinked(text: str, source: str, page: str) -> str:
    """Turn links of a text of the repository, relative to it, into links of a page of the site."""

    def turned(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        target = HOMES.get(target, target.removeprefix("docs/"))
        return f"{match[1]}{posixpath.relpath(target, posixpath.dirname(page) or '.')}"

    return _LINK.sub(turned, text)


def experiment_pages() -> Iterator[tuple[str, str, str]]:
    """Yield the pages of the experiments: the list, a page for each, then the protocols."""
    yield "All", "experiments/index.md", "{{ experiments/README.md }}\n"
    for name in EXPERIMENTS:
        yield name, f"experiments/{name}.md", f"{{{{ experiments/{name}/README.md }}}}\n"
    for name in PROTOCOLS:
        title, path = f"{name}: protocol", f"experiments/{name}-protocol.md"
        yield title, path, f"{{{{ experiments/{name}/PROTOCOL.md }}}}\n"


def command_pages() -> Iterator[tuple[str, str, str]]:
    """Yield each command's name, page and help."""
    context = app.make_context("lmtune", [], resilient_parsing=True)
    for name in app.list_commands(context):
        # Whoever searches for an option wants its command first.
        text = "\n".join(["---\nsearch:\n  boost: 4\n---\n", *helped(app, context, ["lmtune", name])])
        yield name, f"commands/{name}.md", text


def helped(group: Any, context: Any, path: list[str]) -> Iterator[str]:
    """Yield the help of a command and of its subcommands, with options below the headings of their groups."""
    _, command, _ = group.resolve_command(context, path[-1:])
    level, name = "#" * (len(path) - 1), " ".join(path)
    yield f"{level} `{name}`\n\n{command.help}\n"
    if hasattr(command, "resolve_command"):
        for member in command.list_commands(context):
            yield from helped(command, context, [*path, member])
        return
    own = command.context_class(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(own)])
    yield "```console\n" + "".join(f"$ {line}\n" for line in (usage, *command.examples)) + "```\n"
    sections: dict[str, list[str]] = {}
    for parameter in command.parameters:
        sections.setdefault(parameter.title, []).append(described(parameter))
    for title, entries in sections.items():
        yield f"{level}# {title}\n\n" + "\n".join(entries)
    yield plain(command.epilog or "")


def described(parameter: Any) -> str:
    """Return a list entry for an argument or option: names, help, bounds, default."""
    default, bounds = parameter.standard, parameter.bounds
    values = " ".join(filter(None, [default and f"Default: `{default}`.", bounds and f"Accepts {bounds}."]))
    entry = "<br>".join(filter(None, [plain(parameter.text), values]))
    return f"`{parameter.record()[0]}`\n:   {entry}\n"


def plain(text: str) -> str:
    """Return a help text as Markdown, with angle brackets escaped."""
    return _CODE_OR_LESS.sub(lambda match: match[1] or "&lt;", text)


def python_pages() -> Iterator[tuple[str, str, str]]:
    """Yield the pages of the Python reference: a list of all public names, then one page for each task."""
    tasks: dict[str, dict[str, str]] = {title: {} for title in TASKS}
    for name, module in public_names():
        room = module.split(".")[1]
        title = next((title for title, rooms in TASKS.items() if room in rooms), OTHER)
        tasks[title].setdefault(f"{module}.{name.rpartition('.')[2]}", name)
    yield (
        "All names",
        "python/index.md",
        "# Python\n\n"
        + "\n".join(
            f"## {title}\n\n| import | what it is |\n|---|---|\n"
            + "".join(
                f"| [`{name}`]({slug(title)}.md#{path}) | {first_line(path)} |\n"
                for path, name in names.items()
            )
            for title, names in tasks.items()
        ),
    )
    for title, names in tasks.items():
        yield (
            title,
            f"python/{slug(title)}.md",
            f"# {title}\n\n" + "\n".join(f"::: {path}\n" for path in names),
        )


def public_names() -> Iterator[tuple[str, str]]:
    """Yield each public name with its package, ``lmtune.measures.AP``, and the module that defines it."""
    stubs = sorted((ROOT / "lmtune").rglob("__init__.pyi"), key=lambda path: len(path.parts))
    for stub in stubs:
        package = ".".join(stub.parent.relative_to(ROOT).parts)
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                parts = package.split(".")
                module = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
                yield from ((f"{package}.{own.name}", module) for own in node.names if own.name[0] != "_")


def first_line(path: str) -> str:
    """Return the first line of an object's docstring, as Markdown in a cell of a table."""
    module, _, name = path.rpartition(".")
    line = (inspect.getdoc(getattr(import_module(module), name)) or "").partition("\n")[0]
    return plain(line.replace(":math:", "")).replace("|", "\\|")


def slug(title: str) -> str:
    """Return the name of a task's page."""
    return title.lower().replace(" ", "-")
