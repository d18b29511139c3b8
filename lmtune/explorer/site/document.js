// A document's score term by term, and its text.

import { cell, headed, labelCells, short } from "explore/topics";

// The cells of a term's row, by column.
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
  const bar = isSigned ? "bar (negative to the left)" : below ? "bar (below 0)" : "bar";
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
  const sum = answer.isSum ? "the sum of the terms" : "not a sum over terms; each row has the score by this term alone";
  cell(parent, `score ${short(answer.score)}, with the pinned setting ${short(answer.pinned)} (pale bars); ${sum}${isRuns ? "" : `; document length ${answer.length}`}`, "p");
  const scroll = cell(parent, "", "div", { className: "scroll", tabIndex: 0, ariaLabel: "parts of the score" });
  scroll.setAttribute("role", "region");
  scroll.append(table);
  labelCells(table);
  if (answer.account !== null) {
    const account = cell(parent, "", "details");
    cell(account, "explanation in the form of search engines", "summary");
    cell(account, answer.account, "pre", { className: "scroll", tabIndex: 0 });
  }
  if (answer.text !== null) drawText(cell(parent, "", "p", { className: "document", tabIndex: 0 }), answer.text);
}

// Draw a term's contribution as a share of the largest one; from the middle if signs differ.
function drawBar(parent, share, isSigned, kind) {
  const bar = cell(parent, "", "div", { className: `part${share < 0 ? " below" : ""}${kind}`, ariaHidden: "true" });
  const width = Math.abs(share) * (isSigned ? 50 : 100);
  bar.style.width = `${width}%`;
  bar.style.marginLeft = isSigned ? `${share < 0 ? 50 - width : 50}%` : "0";
}

// Draw the pieces of a text; those at odd positions are query terms.
export function drawText(box, pieces) {
  box.replaceChildren();
  pieces.forEach((piece, i) => (i % 2 ? cell(box, piece, "mark") : box.append(piece)));
}
