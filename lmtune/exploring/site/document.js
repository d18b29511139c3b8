// A document's score, term by term, and its text.

import { cell } from "explore/topics";

const LONGEST = 4000;

export function drawDocument(parent, answer, isRuns) {
  parent.replaceChildren();
  cell(parent, answer.docno, "h3");
  const table = document.createElement("table");
  const heads = isRuns
    ? ["run", "weight × score"]
    : ["term", "times", "tf", "P(w|C) or weight", "contribution", "p"];
  const head = document.createElement("tr");
  for (const name of heads) cell(head, name, "th", { scope: "col" });
  table.append(document.createElement("thead"), document.createElement("tbody"));
  table.tHead.append(head);
  for (const own of answer.terms) {
    const row = document.createElement("tr");
    cell(row, own.term, "th", { scope: "row" });
    const number = { className: "number" };
    if (!isRuns) {
      cell(row, own.times, "td", number);
      cell(row, own.tf.join(" + "), "td", number);
      cell(row, own.value.map((value) => value.toPrecision(3)).join(", "), "td", number);
    }
    cell(row, own.contribution.toFixed(4), "td", number);
    // Of a log likelihood: the smoothed probability.
    if (!isRuns) cell(row, own.contribution < 0 ? Math.exp(own.contribution / own.times).toPrecision(3) : "", "td", number);
    table.tBodies[0].append(row);
  }
  const sum = answer.isSum ? "the terms add up to it" : "not a sum over terms: what each gives alone is shown";
  cell(parent, `score ${answer.score.toFixed(4)}; ${sum}${isRuns ? "" : `; length ${answer.length}`}`, "p");
  parent.append(table);
  if (answer.text !== null) parent.append(marked(answer.text, answer.terms.map((own) => own.term)));
}

// The text with the words that begin as a term does: terms are stems.
function marked(text, terms) {
  const box = document.createElement("p");
  box.className = "document";
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
  const stems = terms.filter((term) => /^[\p{L}\p{N}]+$/u.test(term));
  for (const word of cut.split(/([\p{L}\p{N}]+)/u)) {
    const small = word.toLowerCase();
    if (stems.some((stem) => small.startsWith(stem) && small.length - stem.length < 6)) cell(box, word, "mark");
    else box.append(word);
  }
  return box;
}
