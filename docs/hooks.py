"""The site's pages that stand elsewhere: in the repository's texts, in the code.

A line ``{{ FILE }}`` includes a text of the repository. Pages of commands come from the command line's own
help, pages of public packages from their ``__init__.pyi``.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
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
"""Which page a link to a text of the repository leads to."""

_INCLUDED = re.compile(r"^\{\{ (\S+) \}\}$", re.MULTILINE)
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)")
_CODE_OR_LESS = re.compile(r"(`[^`]*`)|<")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the generated pages where the navigation names their folders."""
    folders = {
        "commands/": list(command_pages()),
        "python/": list(package_pages()),
        "experiments/": list(experiment_pages()),
    }
    for entry in config.nav or []:
        for title, where in entry.items():
            if isinstance(where, str) and where in folders:
                entry[title] = [{name: path} for name, path, _ in folders[where]]
    config.extra["generated"] = {path: text for pages in folders.values() for _, path, text in pages}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the examples that texts link to."""
    for path, text in config.extra.pop("generated").items():
        files.append(File.generated(config, path, content=text))
    for path in sorted((ROOT / "examples").iterdir()):
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Take in what the page names, with links that lead from here."""
    here = page.file.src_uri
    markdown = relinked(markdown, f"docs/{here}", here)
    return _INCLUDED.sub(lambda found: included(found[1], here), markdown)


def included(name: str, page: str) -> str:
    """Return a text of the repository, with links that work on a page of the site."""
    return relinked((ROOT / name).read_text(encoding="utf-8"), name, page)


def relinked(text: str, source: str, page: str) -> str:
    """Turn links of a text of the repository, relative to it, into links of a page of the site."""

    def turned(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
        target = HOMES.get(target, target.removeprefix("docs/"))
        return f"]({posixpath.relpath(target, posixpath.dirname(page) or '.')}"

    return _LINK.sub(turned, text)


def experiment_pages() -> Iterator[tuple[str, str, str]]:
    """Yield the pages of the experiments: their list, then one each, then the protocols."""
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
    """Yield the help of a group's member and of its own members, options below their groups' headings."""
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
    """Return an argument or an option as an entry of a list: its names, what it is, bounds, default."""
    default, bounds = parameter.standard, parameter.bounds
    values = " ".join(filter(None, [default and f"Default: `{default}`.", bounds and f"Accepts {bounds}."]))
    entry = "<br>".join(filter(None, [plain(parameter.text), values]))
    return f"`{parameter.record()[0]}`\n:   {entry}\n"


def plain(text: str) -> str:
    """Return a help's text as Markdown: what it has in angle brackets is no element."""
    return _CODE_OR_LESS.sub(lambda found: found[1] or "&lt;", text)


def package_pages() -> Iterator[tuple[str, str, str]]:
    """Yield each public package, its page, and the names that its stub makes public."""
    for stub in sorted((ROOT / "lmtune").rglob("__init__.pyi")):
        package = ".".join(stub.parent.relative_to(ROOT).parts)
        lines = [f"# {package}\n"]
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
                lines += [f"::: {base}.{own.name}\n" for own in node.names if own.name[0] != "_"]
        yield package, f"python/{package}.md", "\n".join(lines)
