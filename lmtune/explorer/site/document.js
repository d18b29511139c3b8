// A document's score, term by term, and its text.

import { cell, headed, short } from "explore/topics";

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
  const table = headed([name], [...Object.values(answer.columns), part, "pinned"]);
  const parts = answer.terms.flatMap((own) => [own.contribution, own.pinned]);
  const largest = Math.max(...parts.map(Math.abs));
  const below = parts.filter((own) => own < 0).length;
  const isSigned = below > 0 && parts.some((own) => own > 0);
  const bar = isSigned ? "bar, to the left below 0" : below ? "bar, how far below 0" : "bar";
  cell(table.tHead.rows[0], bar, "th", { scope: "col" });
  for (const own of answer.terms) {
    const row = document.createElement("tr");
    cell(row, own.term, "th", { scope: "row" });
    for (const kind of kinds) cell(row, SHOWN[kind](own), "td", { className: "number" });
    const bars = [["", own.contribution], [" before", own.pinned]];
    for (const [, value] of bars) cell(row, short(value), "td", { className: "number" });
    const drawn = cell(row, "", "td", { className: "bar" });
    for (const [kind, value] of bars) drawBar(drawn, largest > 0 ? value / largest : 0, isSigned, kind);
    table.tBodies[0].append(row);
  }
  const sum = answer.isSum ? "the terms add up to it" : "not a sum over terms: what each gives alone is shown";
  cell(parent, `score ${short(answer.score)}, with the pinned setting ${short(answer.pinned)} (the pale bars); ${sum}${isRuns ? "" : `; length ${answer.length}`}`, "p");
  const scroll = cell(parent, "", "div", { className: "scroll", tabIndex: 0, ariaLabel: "the score's parts" });
  scroll.setAttribute("role", "region");
  scroll.append(table);
  if (answer.account !== null) {
    const told = cell(parent, "", "details");
    cell(told, "as search engines explain it", "summary");
    cell(told, answer.account, "pre", { className: "scroll", tabIndex: 0 });
  }
  if (answer.text !== null) parent.append(marked(answer.text));
}

// A term's share of the largest part, beside its number; where some are below 0, from the middle.
function drawBar(parent, share, isSigned, kind) {
  const bar = cell(parent, "", "div", { className: `part${share < 0 ? " below" : ""}${kind}`, ariaHidden: "true" });
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
