// The page for judging pairs: topic, document text, keys 0 to 3. Each label is saved immediately.

import { ask } from "explore/source";
import { drawText } from "explore/document";
import { cell } from "explore/topics";

const LABELS = ["not relevant", "related", "highly relevant", "perfectly relevant"];
const undone = [];
let pairs = [];
let now = 0;
let saving = Promise.resolve();

const parts = {};
const put = (parent, name, kind, options = {}) => {
  parts[name] = cell(parent, "", kind, options);
  parts[name].dataset.part = name;
  return parts[name];
};

function build(name) {
  const main = document.getElementById("page");
  main.className = "judging";
  const header = cell(main, "", "header");
  cell(header, `Judge pairs: ${name}`, "h1");
  cell(header, "How relevant is the document to the topic? Press 0 to 3.", "p");
  put(header, "progress", "p").setAttribute("role", "status");
  put(header, "problem", "p", { hidden: true }).setAttribute("role", "alert");
  const shown = cell(main, "", "section");
  put(shown, "topic", "h2");
  put(shown, "docno", "h3");
  put(shown, "text", "div", { className: "document", tabIndex: 0 }).setAttribute("aria-labelledby", "docno");
  parts.docno.id = "docno";
  const choices = cell(main, "", "section", { className: "choices" });
  put(choices, "labels", "div", { className: "buttons" });
  LABELS.forEach((label, gain) => {
    cell(parts.labels, `${gain} ${label}`, "button", { onclick: () => give(gain) });
  });
  const moves = cell(choices, "", "div", { className: "buttons" });
  cell(moves, "← back", "button", { onclick: () => show(now - 1) });
  cell(moves, "forward →", "button", { onclick: () => show(now + 1) });
  put(moves, "undo", "button", { onclick: undo }).textContent = "u undo";
}

// Show a pair. A text that arrives after the next pair is shown is ignored.
async function show(place) {
  now = Math.max(0, Math.min(pairs.length - 1, place));
  const pair = pairs[now];
  draw();
  parts.topic.textContent = `Topic ${[pair.topic, pair.text].filter(Boolean).join(": ")}`;
  parts.docno.textContent = pair.docno;
  parts.text.textContent = "";
  try {
    const answer = await ask("document", { topic: pair.topic, docno: pair.docno });
    if (!answer || pair !== pairs[now]) return;
    drawText(parts.text, answer.text ?? [answer.why]);
    parts.text.scrollTop = 0;
  } catch (error) {
    tell(error);
  }
}

function draw() {
  const done = pairs.filter((pair) => pair.label !== null).length;
  const rest = done === pairs.length ? " · all judged" : "";
  parts.progress.textContent = `Pair ${now + 1} · ${done} of ${pairs.length} judged${rest}`;
  [...parts.labels.children].forEach((button, gain) => {
    button.setAttribute("aria-pressed", String(pairs[now].label === gain));
  });
  parts.undo.disabled = !undone.length;
}

function tell(error) {
  parts.problem.textContent = error.message;
  parts.problem.hidden = false;
}

// Save one label after the other, so that a later label cannot overtake an earlier one.
function save(pair, label) {
  const { topic, docno } = pair;
  pair.label = label;
  saving = saving.then(async () => {
    try {
      const { labels } = await ask("labelled", { topic, docno, label });
      pair.saved = labels[pairs.indexOf(pair)];
      parts.problem.hidden = true;
    } catch (error) {
      pair.label = pair.saved;
      draw();
      tell(new Error(`not saved: ${docno}: ${error.message}`));
    }
  });
}

function give(gain) {
  undone.push({ place: now, label: pairs[now].label });
  save(pairs[now], gain);
  const later = [...pairs.keys()].map((step) => (now + step) % pairs.length);
  show(later.find((place) => pairs[place].label === null) ?? now);
}

function undo() {
  const last = undone.pop();
  if (!last) return;
  save(pairs[last.place], last.label);
  show(last.place);
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { key, repeat } = event;
  if (key === "ArrowLeft") show(now - 1);
  else if (key === "ArrowRight") show(now + 1);
  else if (repeat) return;
  else if (key === "u") undo();
  else if (key in LABELS && key.length === 1) give(Number(key));
  else return;
  event.preventDefault();
}

try {
  const answer = await ask("pairs");
  pairs = answer.pairs.map((pair) => ({ ...pair, saved: pair.label }));
  build(answer.name);
  const first = pairs.findIndex((pair) => pair.label === null);
  show(Math.max(0, first));
  addEventListener("keydown", press);
} catch (error) {
  cell(document.getElementById("page"), error.message, "p");
}
