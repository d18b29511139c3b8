"""What a page asks of a view, as JSON holds it."""

from __future__ import annotations

import math
import shlex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, check_choice
from lmtune.exploring.background import Surfaces
from lmtune.exploring.view import SHOWN, View, stamp_of
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.significance.comparison import compare
from lmtune.models.parameter import Parameter, Setting

_CLOSE = 1e-9  # relative: where a score is no sum over terms, it is off by far more


def description(view: View) -> dict[str, Any]:
    """Return what does not depend on a setting: names, parameters, measures, topics, marks."""
    return {
        "name": view.pool.name,
        "model": view.model,
        "documents": view.index.num_docs,
        "parameters": [_parameter(own) for own in view.space.parameters],
        "measures": [str(measure) for measure in view.measures],
        "topics": [{"id": topic, "text": view.queries.get(topic, "")} for topic in view.pool.topics],
        "marks": [mark._asdict() for mark in view.marks],
        "hasTexts": view.texts is not None,
        "depth": view.depth,
    }


def _parameter(own: Parameter) -> dict[str, Any]:
    names = ("name", "what", "unit", "low", "high", "scale", "share")
    return {name: getattr(own, name) for name in names} | {"fixed": own.is_fixed}


def measured(view: View, setting: Setting) -> dict[str, Any]:
    """Return a setting's value of each measure: means, and topic by topic."""
    vector = view.vector(setting)
    values = view.value(vector)
    return {
        "setting": view.space.named(vector),
        "means": values.mean(axis=0).tolist(),
        "values": values.tolist(),
        "command": command(view, vector),
        "changed": view.stamp != stamp_of(view.index),
    }


def command(view: View, vector: NDArray[np.float64]) -> str:
    """Return the command that writes a setting's run; of runs, the one that measures their weights."""
    if not view.model:
        weights = ",".join(f"{name}={value!r}" for name, value in view.space.named(vector).items())
        measures = [word for measure in view.measures for word in ("-m", str(measure))]
        depth = [] if view.depth == DEPTH else ["--depth", str(view.depth)]
        return shlex.join(["lmtune", "fuse", *view.source, "--weights", weights, *measures, *depth])
    values = zip(view.space.parameters, vector.tolist(), strict=True)
    given = [f"--set {own.name}={value!r}" for own, value in values if not own.is_fixed]
    return " ".join(["lmtune search", *view.source, f"--model {view.model}", *given])


def compared(view: View, setting: Setting, pinned: Setting) -> dict[str, Any]:
    """Compare a setting with a pinned one: a paired t-test and an interval for each measure."""
    now, then = view.vector(setting), view.vector(pinned)
    names, topics = [str(measure) for measure in view.measures], list(view.pool.topics)
    found = compare(view.value(then), {"setting": view.value(now)}, measures=names, topics=topics)
    return {
        "contrasts": [
            {
                "measure": own.measure,
                "mean": own.mean,
                "pinned": own.against_mean,
                "difference": own.difference,
                "interval": None if math.isnan(own.interval[0]) else list(own.interval),
                "p": None if math.isnan(own.tested["t"].p_value) else own.tested["t"].p_value,
                "better": own.wins,
                "equal": own.ties,
                "worse": own.losses,
            }
            for own in found.contrasts
        ],
        "confidence": found.interval_confidence,
        "notes": list(found.notes) if (now != then).any() else [],
    }


def ranked(view: View, topic: str, setting: Setting, pinned: Setting) -> dict[str, Any]:
    """Return a topic's two rankings, each document with its gain and its place in the other."""
    [t] = view.pool.positions([topic]).tolist()
    sides = {name: view.vector(own) for name, own in (("pinned", pinned), ("setting", setting))}
    tops = {name: view.top(t, vector, view.depth) for name, vector in sides.items()}
    places = {name: {int(at): place for place, at in enumerate(top, 1)} for name, top in tops.items()}
    rows = view.pool.candidates.rows(t)
    gains, docs = view.pool.candidates.gain[rows], view.pool.candidates.doc[rows]
    shown: dict[str, Any] = {"topic": topic, "text": view.queries.get(topic, "")}
    for name, other in (("pinned", "setting"), ("setting", "pinned")):
        top = tops[name][:SHOWN]
        scores = view.scores(t, top, sides[name]).tolist()
        shown[name] = [
            {"docno": docno, "score": score, "gain": int(gains[at]), "other": places[other].get(int(at))}
            for docno, score, at in zip(view.index.docnos(docs[top]), scores, top, strict=True)
        ]
    return shown


def explained(view: View, topic: str, docno: str, setting: Setting) -> dict[str, Any]:
    """Return a document's score for a topic term by term, and its text where that is kept.

    A term's contribution is the score of the document by that term alone; `is_sum` tells whether these
    add up to the score, as they do where a formula is a sum over terms.
    """
    [t] = view.pool.positions([topic]).tolist()
    vector, own = view.vector(setting), view.pool.candidates.rows(t)
    [number] = view.index.doc_numbers([docno]).tolist()
    [places] = np.nonzero(view.pool.candidates.doc[own] == number)
    if number < 0 or not places.size:
        raise InputError(
            "not among the topic's candidates", value=docno, accepted="a document of its rankings"
        )
    [score] = view.scores(t, places, vector).tolist()
    columns, tf = view.pool.columns[t], view.pool.tf_block(view.pool.candidates, t)[:, int(places[0])]
    values = view.pool.value[view.pool.term_rows(t)]
    given = view.parts(t, int(places[0]), vector)
    parts = []
    for name, term in zip(given, dict.fromkeys(view.pool.terms[t]), strict=True):
        rows = [row for row, column in enumerate(columns) if column.term == term]
        parts.append(
            {
                "term": name,
                "times": columns[rows[0]].times,
                "tf": tf[rows].tolist(),
                "value": values[rows].tolist(),
                "contribution": given[name],
            }
        )
    total = sum(given.values())
    return {
        "docno": docno,
        "score": score,
        "length": int(view.pool.candidates.length[own][places[0]]),
        "terms": parts,
        "isSum": abs(total - score) <= _CLOSE * max(1.0, abs(score)),
        "text": None if view.texts is None else view.texts.of([docno])[0],
    }


def surface(view: View, surfaces: Surfaces, setting: Setting, measure: str, smooth: bool) -> dict[str, Any]:
    """Return what is known so far of a measure over the grid, or of its smooth form: means over topics."""
    names = [str(own) for own in view.measures]
    check_choice("not among the page's measures", measure, names)
    place = names.index(measure)
    points = surfaces.ask(view.vector(setting), view.measures[place] if smooth else None)
    values = points.values if smooth else points.values[:, place]
    return {
        "settings": points.settings.tolist(),
        "shape": list(points.shape),
        "values": [None if np.isnan(value) else value for value in values.tolist()],
        "done": points.done / len(points.order),
        "error": points.error,
    }
