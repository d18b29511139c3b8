// Topics by their difference from the pinned setting; one of them opened.

const SHOWN = 200;

export function cell(row, text, kind = "td", options = {}) {
  const made = document.createElement(kind);
  made.textContent = text;
  Object.assign(made, options);
  row.append(made);
  return made;
}

// An empty table with a head: names of rows to the left, of numbers to the right, as they stand below.
export function headed(names, numbers) {
  const table = document.createElement("table");
  const row = document.createElement("tr");
  for (const name of names) cell(row, name, "th", { scope: "col" });
  for (const name of numbers) cell(row, name, "th", { scope: "col", className: "number" });
  table.append(document.createElement("caption"), document.createElement("thead"), document.createElement("tbody"));
  table.tHead.append(row);
  return table;
}

export function signed(value, digits = 4) {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value < 0 ? "−" : "+"}${text}`;
}

function button(text, onClick, label = text) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "plain";
  made.textContent = text;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", onClick);
  return made;
}

// Draw the topics' table; `now` and `then` hold each topic's values of all measures. Without `onOpen` there is
// nothing behind a topic.
export function drawTopics(parent, { topics, place, now, then, filter, open, onOpen }) {
  const wanted = filter.trim().toLowerCase();
  const rows = topics
    .map((topic, i) => ({ ...topic, value: now[i][place], difference: now[i][place] - then[i][place] }))
    .filter((topic) => !wanted || `${topic.id} ${topic.text}`.toLowerCase().includes(wanted))
    .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference));
  const body = document.createElement("tbody");
  for (const topic of rows.slice(0, SHOWN)) {
    const row = document.createElement("tr");
    row.classList.toggle("open", topic.id === open);
    const name = cell(row, onOpen ? "" : topic.id, "th", { scope: "row" });
    if (onOpen) name.append(button(topic.id, () => onOpen(topic.id), `topic ${topic.id}: show its rankings`));
    cell(row, topic.text, "td", { className: "text" });
    cell(row, topic.value.toFixed(4), "td", { className: "number" });
    const sign = topic.difference > 0 ? "better" : topic.difference < 0 ? "worse" : "equal";
    cell(row, signed(topic.difference), "td", { className: `number ${sign}` });
    body.append(row);
  }
  parent.querySelector("tbody").replaceWith(body);
  const more = rows.length > SHOWN ? `, the first ${SHOWN} are shown` : "";
  parent.querySelector("caption").textContent = `${rows.length} topics by their difference${more}`;
}

const JUDGED = (gain) =>
  gain > 0 ? ["relevant", "●", `relevant (${gain})`] : gain === 0 ? ["nonrelevant", "○", "judged nonrelevant"] : ["unjudged", "·", "not judged"];

// Draw a topic's two rankings side by side.
export function drawRankings(parent, answer, chosen, onOpen) {
  parent.replaceChildren();
  const title = document.createElement("h3");
  title.textContent = `Topic ${answer.topic}${answer.text ? `: ${answer.text}` : ""}`;
  const sides = document.createElement("div");
  sides.className = "sides";
  for (const [side, name] of [["pinned", "pinned"], ["setting", "this setting"]]) {
    const list = document.createElement("ol");
    list.setAttribute("aria-label", `ranking of ${name}`);
    answer[side].forEach((own, i) => {
      const row = document.createElement("li");
      const [kind, sign, what] = JUDGED(own.gain);
      row.className = kind;
      const moved = own.other === null ? "new" : own.other === i + 1 ? "" : signed(own.other - i - 1, 0);
      const mark = cell(row, sign, "span", { className: "judged", title: what });
      mark.setAttribute("aria-label", what);
      row.append(button(own.docno, () => onOpen(own.docno), `${own.docno}: its score term by term`));
      if (own.docno === chosen) row.classList.add("open");
      if (side === "setting" && moved) {
        const says = own.other === null ? "not in the other ranking" : `was at ${own.other}`;
        cell(row, moved, "span", { className: "moved", title: says });
      }
      list.append(row);
    });
    const column = document.createElement("section");
    cell(column, name, "h4");
    column.append(list);
    sides.append(column);
  }
  parent.append(title, sides);
}
