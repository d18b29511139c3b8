// The comparison with the pinned setting, and the exports.

import { cell, headed, labelCells, short, signed } from "explore/topics";

const COLUMNS = ["setting", "pinned", "difference", "95% CI", "p", "W/T/L"];

function fields(own, labels) {
  return [
    labels[own.measure],
    short(own.mean),
    short(own.pinned),
    signed(own.difference),
    own.interval.includes(null) ? "–" : `[${own.interval.map((value) => signed(value)).join(", ")}]`,
    own.p === null ? "–" : own.p < 0.0001 ? "<0.0001" : short(own.p),
    `${own.better}/${own.equal}/${own.worse}`,
  ];
}

// `testTopics`: the number of topics that are not in the picture, if it covers half of them.
export function drawComparison(table, answer, labels, tried, testTopics) {
  const body = document.createElement("tbody");
  for (const own of answer.contrasts) {
    const row = document.createElement("tr");
    fields(own, labels).forEach((text, i) =>
      cell(row, text, i ? "td" : "th", i ? { className: "number" } : { scope: "row" }),
    );
    body.append(row);
  }
  table.tBodies[0].replaceWith(body);
  labelCells(table);
  const notes = answer.notes.length ? ` ${answer.notes.join(" ")}` : "";
  const many = tried > 1 ? `; ${tried} settings tried, and each further one makes a small p less meaningful` : "";
  const kind = testTopics
    ? "Valid for one setting, chosen on the other topics"
    : "Exploratory: the same topics choose and test the setting";
  const on = testTopics ? `, on the ${testTopics} topics not in the picture` : "";
  table.caption.textContent = `Compared with the pinned setting${on}: paired t-test. ${kind}${many}.${notes}`;
}

export function makeComparison(parent) {
  const table = headed(["measure"], COLUMNS);
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "comparison with the pinned setting");
  scroll.append(table);
  parent.append(scroll);
  return table;
}

export function asCsv(answer) {
  const quoted = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : value);
  const names = ["measure", "mean", "pinned", "difference", "low", "high", "p", "better", "equal", "worse"];
  const rows = answer.contrasts.map((own) => [
    own.measure, own.mean, own.pinned, own.difference, ...own.interval, own.p, own.better, own.equal, own.worse,
  ]);
  return [names, ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

// The picture as a separate file, with the page's current colours.
export function asSvg(svg) {
  const copy = svg.cloneNode(true);
  // Colours are attributes, because the page's policy does not allow inline styles.
  for (const own of copy.querySelectorAll("[tabindex]")) own.removeAttribute("tabindex");
  const wanted = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "paint-order"];
  wanted.push("font-family", "font-size", "font-weight");
  const shown = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((own, i) => {
    const style = getComputedStyle(shown[i]);
    for (const name of wanted) own.setAttribute(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
