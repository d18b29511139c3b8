"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const collections = JSON.parse(byId("data").textContent);
  const [form, table, box, shown, all] = ["controls", "topic-table", "topic-box", "shown", "all"].map(byId);
  const [collection, measure, filter, sign] = ["collection", "measure", "filter", "sign"].map(byId);
  const [body, foot] = [table.tBodies[0], table.tFoot];
  const heads = [...table.tHead.rows[0].cells];
  const most = Number(table.dataset.most);
  const count = new Intl.NumberFormat("en");
  const natural = new Intl.Collator("en", { numeric: true });

  let rows = [];                               // the topics of the selected collection and measure, sorted
  let sorted = { column: 0, direction: 1 };
  let wantAll = false;

  // As in all of lmtune: four decimals, and differences with their sign.
  const short = (value) => value.toFixed(4);
  const signed = (d) => (d < 0 ? "-" : "+") + short(Math.abs(d));

  function cell(name, text, kind) {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  // A row's keys are the sort keys of its columns: topic, fold, values, differences.
  function load() {
    const chosen = collections[collection ? collection.value : 0];
    const values = chosen.measures[measure.value].values;
    const numeric = chosen.topics.every((topic) => /^-?\d{1,15}$/.test(topic));
    rows = chosen.topics.map((topic, t) => {
      const own = values.map((column) => column[t]);
      const differences = own.slice(1).map((value) => value - own[0]);
      const words = chosen.texts[t];
      return { topic, words, keys: [numeric ? Number(topic) : topic, chosen.folds[t], ...own, ...differences], own, differences, element: null };
    });
    const widest = rows.reduce((most, row) => Math.max(most, ...row.differences.map(Math.abs)), 1e-9);
    for (const row of rows) row.share = row.differences.map((d) => Math.abs(d) / widest);
    sort();
  }

  function element(row) {
    if (row.element) return row.element;
    const made = document.createElement("tr");
    const head = cell("th", row.topic);
    head.scope = "row";
    if (row.words) head.append(cell("small", row.words));
    made.append(head, cell("td", row.keys[1], "num"));
    for (const value of row.own) made.append(cell("td", short(value), "num"));
    row.differences.forEach((d, place) => {
      const td = cell("td", signed(d), d === 0 ? "num" : d > 0 ? "num up" : "num down");
      if (d !== 0) td.style.setProperty("--share", row.share[place].toFixed(3));
      made.append(td);
    });
    return (row.element = made);
  }

  // Array.prototype.sort is stable: ties keep the order of the previous sort.
  function sort() {
    const { column, direction } = sorted;
    const compare = (a, b) => (typeof a === "number" ? a - b : natural.compare(a, b));
    rows.sort((a, b) => direction * compare(a.keys[column], b.keys[column]));
    heads.forEach((head, place) => {
      if (place === column) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    show();
  }

  function show() {
    const text = filter.value.trim().toLowerCase();
    const [method, wanted] = sign.value.split(" ").map(Number);
    const kept = rows.filter((row) =>
      `${row.topic} ${row.words}`.toLowerCase().includes(text) &&
      (sign.value === "" || Math.sign(row.differences[method - 1]) === wanted));
    const visible = wantAll ? kept : kept.slice(0, most);
    body.replaceChildren(...visible.map(element));
    const means = kept.length === 0 ? [] : heads.slice(2).map((_, place) =>
      kept.reduce((sum, row) => sum + row.keys[place + 2], 0) / kept.length);
    const total = document.createElement("tr");
    const label = cell("th", kept.length === rows.length ? "Mean" : "Mean of these");
    label.scope = "row";
    total.append(label, cell("td", "", "num"));
    means.forEach((mean, place) =>
      total.append(cell("td", place < rows[0].own.length ? short(mean) : signed(mean), "num")));
    foot.replaceChildren(...(kept.length === 0 ? [] : [total]));
    all.hidden = visible.length === kept.length;
    all.textContent = `Show all ${count.format(kept.length)} topics`;
    const first = visible.length < kept.length ? `, the first ${count.format(visible.length)} in the table` : "";
    shown.textContent = `${count.format(kept.length)} of ${count.format(rows.length)} topics${first}`;
  }

  heads.forEach((head, column) => {
    head.firstElementChild.addEventListener("click", () => {
      sorted = { column, direction: sorted.column === column ? -sorted.direction : 1 };
      sort();
    });
  });
  for (const select of [collection, measure]) if (select) select.addEventListener("change", load);
  sign.addEventListener("change", show);
  filter.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  all.addEventListener("click", () => {
    wantAll = true;
    show();
    box.focus();
  });
  form.reset();
  form.hidden = box.hidden = false;
  load();
})();
