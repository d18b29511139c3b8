// Topics by difference from the pinned setting: a strip, a table, and the rankings of one topic.

const SHOWN = 200;

export function cell(row, text, kind = "td", options = {}) {
  const made = document.createElement(kind);
  made.textContent = text;
  Object.assign(made, options);
  row.append(made);
  return made;
}

// An empty table with a header: names left, numbers right.
export function headed(names, numbers) {
  const table = document.createElement("table");
  const row = document.createElement("tr");
  for (const name of names) cell(row, name, "th", { scope: "col" });
  for (const name of numbers) cell(row, name, "th", { scope: "col", className: "number" });
  table.append(document.createElement("caption"), document.createElement("thead"), document.createElement("tbody"));
  table.tHead.append(row);
  return table;
}

// Label the cells of a table by its header, for narrow screens, where each row is a list.
export function labelCells(table) {
  table.classList.add("stacked");
  const heads = [...table.tHead.rows[0].cells].map((own) => own.textContent);
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((own, i) => (own.dataset.label = heads[i]));
}

// As in all of lmtune: four decimals, and differences with their sign.
export const short = (value, digits = 4) => value.toFixed(digits);

export function signed(value, digits = 4) {
  const text = short(Math.abs(value), digits);
  return Number(text) === 0 ? text : `${value < 0 ? "-" : "+"}${text}`;
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

// Draw the table of topics. `now` and `then`: each topic's values of all measures, with the setting and with the
// pinned one. Without `onOpen` topics cannot be opened.
export function drawTopics(parent, { topics, place, now, then, filter, chosen, open, onOpen }) {
  const wanted = filter.trim().toLowerCase();
  const rows = topics
    .map((topic, i) => ({ ...topic, value: now[i][place], difference: now[i][place] - then[i][place] }))
    .filter((_, i) => !chosen || chosen.has(i))
    .filter((topic) => !wanted || `${topic.id} ${topic.text}`.toLowerCase().includes(wanted))
    .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference));
  const body = document.createElement("tbody");
  for (const topic of rows.slice(0, SHOWN)) {
    const row = document.createElement("tr");
    row.classList.toggle("open", topic.id === open);
    const name = cell(row, onOpen ? "" : topic.id, "th", { scope: "row" });
    if (onOpen) name.append(button(topic.id, () => onOpen(topic.id), `topic ${topic.id}: show rankings`));
    cell(row, topic.text, "td", { className: "text" });
    cell(row, short(topic.value), "td", { className: "number" });
    const sign = topic.difference > 0 ? "better" : topic.difference < 0 ? "worse" : "equal";
    cell(row, signed(topic.difference), "td", { className: `number ${sign}` });
    body.append(row);
  }
  parent.querySelector("tbody").replaceWith(body);
  const more = rows.length > SHOWN ? ` (the first ${SHOWN})` : "";
  parent.querySelector("caption").textContent = `${rows.length} topics, largest difference first${more}`;
}

const SVG = "http://www.w3.org/2000/svg";

// A strip of all topics' differences, the largest gain first. Dragging over it selects topics; the others are
// faint.
export function makeStrip(parent, onChoose) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "strip");
  svg.setAttribute("role", "img");
  svg.setAttribute("preserveAspectRatio", "none");
  parent.append(svg);
  let order = [];
  let from = null;
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left) / box.width) * order.length);
    return Math.min(Math.max(place, 0), order.length - 1);
  };
  const choose = (event) => {
    const ends = [from, at(event)].sort((a, b) => a - b);
    onChoose(new Set(order.slice(ends[0], ends[1] + 1)));
  };
  svg.addEventListener("pointerdown", (event) => {
    if (!onChoose) return;
    svg.setPointerCapture(event.pointerId);
    from = at(event);
  });
  svg.addEventListener("pointermove", (event) => event.buttons & 1 && from !== null && choose(event));
  svg.addEventListener("pointerup", (event) => {
    if (from !== null) choose(event);
    from = null;
  });
  return (differences, chosen) => {
    order = differences.map((_, i) => i).sort((a, b) => differences[b] - differences[a]);
    const most = Math.max(...differences.map(Math.abs)) || 1;
    svg.setAttribute("viewBox", `0 -50 ${order.length} 100`);
    svg.replaceChildren();
    for (const [sign, kind] of [[1, "better"], [-1, "worse"]])
      for (const isChosen of [true, false]) {
        let d = "M0 0";
        order.forEach((topic, x) => {
          const value = differences[topic];
          if (Math.sign(value) === sign && (!chosen || chosen.has(topic)) === isChosen)
            d += `M${x} 0v${(-50 * value) / most}h1V0z`;
        });
        const path = document.createElementNS(SVG, "path");
        path.setAttribute("class", `${kind}${isChosen ? "" : " faint"}`);
        path.setAttribute("d", d);
        svg.append(path);
      }
    const [wins, losses] = [1, -1].map((sign) => differences.filter((value) => Math.sign(value) === sign).length);
    svg.setAttribute("aria-label", `${wins} topics better and ${losses} worse than with the pinned setting`);
    return [wins, losses];
  };
}

const JUDGED = (gain) =>
  gain > 0 ? ["relevant", "●", `relevant (${gain})`] : gain === 0 ? ["nonrelevant", "○", "judged non-relevant"] : ["unjudged", "·", "not judged"];

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
        const title = own.other === null ? "not in the other ranking" : `rank ${own.other} with the pinned setting`;
        cell(row, moved, "span", { className: "moved", title });
      }
      list.append(row);
    });
    const column = document.createElement("section");
    cell(column, name, "h4");
    column.append(list);
    sides.append(column);
  }
  const links = document.createElementNS(SVG, "svg");
  links.setAttribute("class", "links");
  links.setAttribute("aria-hidden", "true"); // each document has its old rank as text
  sides.firstChild.after(links);
  sides.tabIndex = 0;
  sides.setAttribute("role", "region");
  sides.setAttribute("aria-label", "two rankings");
  parent.append(title, sides);
  link(links, answer, ...sides.querySelectorAll("ol"));
}

// Join the two ranks of each document by a line.
function link(svg, answer, pinned, setting) {
  const top = svg.getBoundingClientRect().top;
  const height = svg.parentNode.scrollHeight;
  const middle = (list, place) => {
    const box = list.children[place].getBoundingClientRect();
    return box.top + box.height / 2 - top;
  };
  svg.setAttribute("viewBox", `0 0 100 ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("height", height);
  answer.setting.forEach((own, place) => {
    if (own.other === null || own.other > pinned.children.length) return;
    const [from, to] = [middle(pinned, own.other - 1), middle(setting, place)];
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", JUDGED(own.gain)[0]);
    path.setAttribute("d", `M0 ${from}C50 ${from} 50 ${to} 100 ${to}`);
    svg.append(path);
  });
}
