// A document's score, term by term, and its text.

import { cell, headed } from "explore/topics";

// What stands in a term's row under each name of its columns.
const SHOWN = {
  times: (own) => Number(own.times.toPrecision(4)),
  tf: (own) => own.tf.map((count, i) => `${own.of[i]} ${count}`.trim()).join(", "),
  value: (own) => own.value.map((value) => value.toPrecision(3)).join(", "),
  made: (own) => own.made,
  probability: (own) => own.probability.toPrecision(3),
};

export function drawDocument(parent, answer, isRuns) {
  parent.replaceChildren();
  cell(parent, answer.docno, "h3");
  const kinds = Object.keys(answer.columns);
  const [name, part] = isRuns ? ["run", "weight × score"] : ["term", "contribution"];
  const table = headed([name], [...Object.values(answer.columns), part]);
  const largest = Math.max(...answer.terms.map((own) => Math.abs(own.contribution)));
  const below = answer.terms.filter((own) => own.contribution < 0).length;
  const isSigned = below > 0 && below < answer.terms.length;
  const bar = isSigned ? "bar, to the left below 0" : below ? "bar, how far below 0" : "bar";
  cell(table.tHead.rows[0], bar, "th", { scope: "col" });
  for (const own of answer.terms) {
    const row = document.createElement("tr");
    cell(row, own.term, "th", { scope: "row" });
    for (const kind of kinds) cell(row, SHOWN[kind](own), "td", { className: "number" });
    cell(row, own.contribution.toFixed(4), "td", { className: "number" });
    drawBar(cell(row, "", "td", { className: "bar" }), largest > 0 ? own.contribution / largest : 0, isSigned);
    table.tBodies[0].append(row);
  }
  const sum = answer.isSum ? "the terms add up to it" : "not a sum over terms: what each gives alone is shown";
  cell(parent, `score ${answer.score.toFixed(4)}; ${sum}${isRuns ? "" : `; length ${answer.length}`}`, "p");
  const scroll = cell(parent, "", "div", { className: "scroll", tabIndex: 0, ariaLabel: "the score's parts" });
  scroll.setAttribute("role", "region");
  scroll.append(table);
  if (answer.text !== null) parent.append(marked(answer.text));
}

// A term's share of the largest part, beside its number; where some are below 0, from the middle.
function drawBar(parent, share, isSigned) {
  const bar = cell(parent, "", "div", { className: share < 0 ? "part below" : "part", ariaHidden: "true" });
  const width = Math.abs(share) * (isSigned ? 50 : 100);
  bar.style.width = `${width}%`;
  bar.style.marginLeft = isSigned ? `${share < 0 ? 50 - width : 50}%` : "0";
}

// Pieces of the text, of which every other one is a query term.
function marked(pieces) {
  const box = document.createElement("p");
  box.className = "document";
  box.tabIndex = 0;
  pieces.forEach((piece, i) => (i % 2 ? cell(box, piece, "mark") : box.append(piece)));
  return box;
}
