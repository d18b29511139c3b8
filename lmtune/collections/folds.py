"""Selection of topics, and folds of training and test topics."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from lmtune.collections.names import is_file
from lmtune.errors import InputError, PathLike, as_text
from lmtune.io.digests import read_json
from lmtune.io.files import read_lines
from lmtune.io.topics import read_topics
from lmtune.progress import note, quantity

_RANGE = re.compile(r"([0-9]+)-([0-9]+)")
_NUMBER = re.compile(r"[0-9]+")
_TOPIC_WITH_TEXT = re.compile(r"[<{]|.*\t")
_ACCEPTED = "topic identifiers and ranges such as 51-100,103 or @FILE with one identifier per line"


def select_topics(spec: str, topics: Sequence[str]) -> list[str]:
    """Select topics by identifiers, ranges or a file.

    Parameters
    ----------
    spec : str
        Identifiers and ranges, separated by commas, such as ``301-450,601``; or ``@FILE``, or the path of a
        file, with one identifier per line. Blank lines and lines that begin with ``#`` are skipped. The file
        can be a topic file instead; a note gives the number of its topics that are available. A range selects
        the numeric identifiers in `topics` from its first to its last number, inclusive. If an identifier has
        the form of a range, it means the topic.
    topics : sequence of str
        The available identifiers, each once.

    Returns
    -------
    list of str
        The selected identifiers, each once, in the order of `topics`.

    Raises
    ------
    InputError
        If an identifier is unknown, a range selects no topic or runs backwards, an item is empty, or a file
        cannot be read or has no topic.

    Examples
    --------
    >>> select_topics("302-400,301", ["301", "302", "310", "401"])
    ['301', '302', '310']
    """
    known = frozenset(topics)
    items = [item.strip() for item in spec.split(",")]
    if spec.startswith("@"):
        chosen = _topics_of_file(Path(spec[1:]), known)
    elif all(item in known or _RANGE.fullmatch(item) for item in items) or not is_file(spec):
        chosen = {topic for item in items for topic in _from_item(item, spec, known)}
    else:
        chosen = _topics_of_file(Path(spec), known)
    return [topic for topic in topics if topic in chosen]


def _from_item(item: str, spec: str, known: Collection[str]) -> set[str]:
    bounds = _RANGE.fullmatch(item)
    if item in known:
        return {item}
    if bounds is None:
        what = "no such topic" if item else "an empty item among the topics"
        raise InputError(what, value=item or spec, accepted=_ACCEPTED)
    first, last = int(bounds[1]), int(bounds[2])
    if first > last:
        raise InputError("the range of topics runs backwards", value=item, accepted=_ACCEPTED)
    chosen = {topic for topic in known if _NUMBER.fullmatch(topic) and first <= int(topic) <= last}
    if not chosen:
        raise InputError("no topic is in the range", value=item, accepted=_describe(known))
    return chosen


def _topics_of_file(path: Path, known: Collection[str]) -> set[str]:
    lines = [(number, line.strip()) for number, line in read_lines(path)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if lines and _TOPIC_WITH_TEXT.match(lines[0][1]):
        return _known_topics(path, known)
    chosen = set()
    for number, topic in lines:
        if topic not in known:
            raise InputError("no such topic", file=path, line=number, value=topic, accepted=_describe(known))
        chosen.add(topic)
    if not chosen:
        raise InputError("the file has no topic", file=path, accepted="one identifier per line")
    return chosen


def _known_topics(path: Path, known: Collection[str]) -> set[str]:
    """Return the known topics of a topic file; report how many it has."""
    listed = read_topics(path)
    chosen = listed.keys() & known
    if not chosen:
        raise InputError("no such topic", file=path, value=next(iter(listed)), accepted=_describe(known))
    if len(chosen) < len(listed):
        note(f"{path}: {len(chosen)} of {quantity(len(listed), 'topic')} can be selected")
    return chosen


def _describe(known: Collection[str]) -> str:
    """Describe the available topics briefly."""
    numbers = sorted(int(topic) for topic in known if _NUMBER.fullmatch(topic))
    if numbers and len(numbers) == len(known):
        return f"{len(known)} topics from {numbers[0]} to {numbers[-1]}"
    shown = ", ".join(sorted(known)[:3])
    return f"one of {len(known)} topics such as {shown}" if known else "there are no topics"


@dataclass(frozen=True)
class Fold:
    """Training topics and held-out test topics, both in the order of the collection."""

    train: tuple[str, ...]
    test: tuple[str, ...]


def make_folds(
    usable: Sequence[str],
    topics: Sequence[str],
    *,
    folds: str | None = None,
    train: str | Sequence[str] | None = None,
    test: str | Sequence[str] | None = None,
    seed: int = 0,
) -> tuple[list[Fold], str]:
    """Make folds from the options for training and test topics.

    Parameters
    ----------
    usable : sequence of str
        Topics with a relevant document; only these are in the folds.
    topics : sequence of str
        All topics that can be selected.
    folds : str, optional
        A number of folds, or a file for `read_parts`; ``"2"`` by default.
    train, test : str or sequence of str, optional
        Topics, or selections for `select_topics`. If only one is specified, the other has all other topics.
    seed : int
        Seed of the shuffle for a number of folds.

    Returns
    -------
    folds : list of Fold
        The folds.
    description : str
        A description of the folds.

    Raises
    ------
    InputError
        If topics are unknown or in both roles, a role has no usable topic, or the folds are invalid.
    """
    if train is None and test is None:
        if folds is None or re.fullmatch(r"-?[0-9]{1,9}", folds):
            count = int(folds or 2)
            how = f"{count}-fold cross-validation (topics shuffled with seed {seed})"
            return cross_validation(usable, count, seed=seed), how
        if not Path(folds).exists():
            raise InputError(
                "neither a number of folds nor a file", value=folds, accepted="2 or more, or a JSON file"
            )
        return _from_file(usable, topics, folds)
    chosen_train, chosen_test = (
        None if spec is None else set(select_topics(spec, topics) if isinstance(spec, str) else spec)
        for spec in (train, test)
    )
    if chosen_train is None:
        chosen_train = set(topics) - (chosen_test or set())
    if chosen_test is None:
        chosen_test = set(topics) - chosen_train
    shared = [topic for topic in topics if topic in chosen_train & chosen_test]
    if shared:
        raise InputError(
            "a topic is both for training and for testing",
            value=shared[0],
            accepted="disjoint --train-topics and --test-topics; lmtune tune fits on both at the end",
        )
    fold = Fold(
        tuple(topic for topic in usable if topic in chosen_train),
        tuple(topic for topic in usable if topic in chosen_test),
    )
    for role, spec, chosen in (("training", train, fold.train), ("test", test, fold.test)):
        if not chosen:
            raise InputError(
                f"no {role} topic has a relevant document",
                value=spec or f"all but {train or test}",
                accepted="topics with judgments",
            )
    return [fold], f"trained on {quantity(len(fold.train), 'topic')}, reported on {len(fold.test)}"


def _from_file(usable: Sequence[str], topics: Sequence[str], path: str) -> tuple[list[Fold], str]:
    known, useful = set(topics), set(usable)
    parts = read_parts(path, known)
    for number, part in enumerate(parts, 1):
        unknown = [topic for topic in part if topic not in known]
        if unknown:
            raise InputError(
                f"fold {number} has an unknown topic",
                file=path,
                value=unknown[0],
                accepted="identifiers in the topics file",
            )
        if not useful.intersection(part):
            raise InputError(f"fold {number} has no topic with a relevant document", file=path, value=part[0])
    left_out = len(useful.difference(*parts))
    rest = f", {left_out} topics are in no fold" if left_out else ""
    how = f"{len(parts)}-fold cross-validation ({as_text(Path(path).name)}{rest})"
    return from_parts(usable, parts), how


def cross_validation(topics: Sequence[str], folds: int, *, seed: int = 0) -> list[Fold]:
    """Make cross-validation folds of shuffled topics.

    Parameters
    ----------
    topics : sequence of str
        Topic identifiers.
    folds : int
        Number of folds, from 2 to the number of topics.
    seed : int
        Seed of the shuffle.

    Returns
    -------
    list of Fold

    Raises
    ------
    InputError
        If the number of folds is not possible.
    """
    if len(topics) < 2:
        raise InputError(
            "cross-validation needs two topics with a relevant document",
            value=list(topics),
            accepted="more topics or judgments",
        )
    if not 2 <= folds <= len(topics):
        raise InputError(
            "impossible number of folds", value=folds, accepted=f"2 to {len(topics)}, the number of topics"
        )
    import numpy as np  # not at the top, because `evaluate` uses this module without numpy

    order = np.random.default_rng(seed).permutation(len(topics))
    return from_parts(topics, [[topics[i] for i in order[first::folds]] for first in range(folds)])


def from_parts(topics: Sequence[str], parts: Sequence[Sequence[str]]) -> list[Fold]:
    """Make cross-validation folds from a partition; topics in no part are left out."""
    folds = []
    for part in parts:
        held_out = set(part)
        others = {topic for other in parts for topic in other} - held_out
        folds.append(
            Fold(
                train=tuple(topic for topic in topics if topic in others),
                test=tuple(topic for topic in topics if topic in held_out),
            )
        )
    return folds


def read_parts(path: PathLike, topics: AbstractSet[str] = frozenset()) -> list[list[str]]:
    """Read a partition of topics from a file.

    The file is a JSON list of lists of topic identifiers, as in Anserini, or ``folds.json`` of
    ``lmtune tune --output``, of which the test topics are used.

    Parameters
    ----------
    path : path-like
        The file.
    topics : set of str
        Topics of the collection; they select its folds if the file has those of several collections.

    Raises
    ------
    InputError
        If the file has another format, a topic is in two parts, or there are fewer than two parts.
    """
    accepted = "a JSON list of two or more lists of topics, or folds.json of lmtune tune --output"
    parts = read_json(path, accepted=accepted)
    if isinstance(parts, dict):
        by_collection = read_folds_file(path, accepted)
        matching = list(by_collection.values())
        if len(matching) > 1:
            matching = [
                folds for folds in matching if topics >= {topic for fold in folds for topic in fold.test}
            ]
        if len(matching) != 1:
            raise InputError(
                "not the folds of one collection with these topics",
                file=path,
                value=list(by_collection),
                accepted=accepted,
            )
        parts = [list(fold.test) for fold in matching[0]]
    if (
        not isinstance(parts, list)
        or len(parts) < 2
        or not all(isinstance(part, list) and part for part in parts)
    ):
        raise InputError("not a partition", file=path, accepted=accepted)
    named = [[str(topic) for topic in part] for part in parts]
    seen: set[str] = set()
    for part in named:
        for topic in part:
            if topic in seen:
                raise InputError("topic occurs twice in the folds", file=path, value=topic)
            seen.add(topic)
    return named


def read_folds_file(path: PathLike, accepted: str) -> dict[str, tuple[Fold, ...]]:
    """Read the folds of each collection from ``folds.json`` of ``lmtune tune --output``.

    Parameters
    ----------
    path : path-like
        The file.
    accepted : str
        Description of accepted files, for messages.

    Raises
    ------
    InputError
        If the file has another format, or a topic is in two folds.
    """
    content = read_json(path, {}, accepted=accepted)
    if not content:
        raise InputError("no collection", file=path, value=content, accepted=accepted)
    by_collection = {}
    for name, parts in content.items():
        if not isinstance(parts, list) or not all(_is_fold(part) for part in parts):
            raise InputError(f"bad folds of {name}", file=path, accepted=accepted)
        by_collection[name] = tuple(Fold(tuple(part["train"]), tuple(part["test"])) for part in parts)
        topics = [topic for fold in by_collection[name] for topic in fold.test]
        if not topics or len(set(topics)) < len(topics):
            raise InputError(f"no test topics of {name}, or one in two folds", file=path, accepted=accepted)
    return by_collection


def _is_fold(part: object) -> bool:
    return isinstance(part, dict) and all(
        isinstance(part.get(role), list) and all(isinstance(topic, str) for topic in part[role])
        for role in ("train", "test")
    )
