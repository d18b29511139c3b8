// The measure over two parameters as a picture, or along each of several as lines.

import { placeOf, valueAt } from "explore/source";

const SVG = "http://www.w3.org/2000/svg";
// Cividis: told apart by all eyes, and in grey.
const RAMP = [
  [0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115],
  [138, 134, 120], [165, 157, 118], [195, 180, 105], [225, 204, 85], [254, 232, 56],
];

function colour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const low = Math.min(Math.floor(at), RAMP.length - 2);
  const mixed = RAMP[low].map((own, i) => Math.round(own + (RAMP[low + 1][i] - own) * (at - low)));
  return `rgb(${mixed.join(" ")})`;
}

function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

export function makeSurface(parent, parameters, onChange) {
  const free = parameters.filter((own) => !own.fixed);
  const planar = free.length === 2;
  const svg = element("svg", { class: "surface", viewBox: "0 0 440 440", role: "img" }, parent);
  svg.setAttribute("aria-label", "no setting is measured yet");
  const box = { x: 56, y: 12, width: 372, height: 372 };
  let last = null;

  const at = (setting) => [
    box.x + box.width * placeOf(free[0], setting[free[0].name]),
    box.y + box.height * (1 - placeOf(free[1], setting[free[1].name])),
  ];

  function drag(event) {
    if (!planar || !(event.buttons & 1)) return;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const places = [(point.x - box.x) / box.width, 1 - (point.y - box.y) / box.height];
    onChange(Object.fromEntries(free.map((own, i) => [own.name, valueAt(own, places[i])])));
  }
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    drag(event);
  });
  svg.addEventListener("pointermove", drag);

  const handle = planar ? element("circle", { class: "handle", r: 9, tabindex: 0, role: "slider" }) : null;
  handle?.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const [which, sign] = move;
    const own = free[which];
    const step = event.shiftKey ? 0.1 : 0.01;
    onChange({ [own.name]: valueAt(own, placeOf(own, last.setting[own.name]) + sign * step) });
  });

  function axes(names) {
    for (const [i, own] of names.entries()) {
      for (const place of [0, 0.5, 1]) {
        const x = i === 0 ? box.x + box.width * place : box.x - 6;
        const y = i === 0 ? box.y + box.height + 16 : box.y + box.height * (1 - place) + 4;
        const anchor = i === 0 ? ["start", "middle", "end"][2 * place] : "end";
        const text = element("text", { x, y, "text-anchor": anchor }, svg);
        text.textContent = String(Number(valueAt(own, place).toPrecision(3)));
      }
    }
    const label = element("text", { x: box.x + box.width / 2, y: 424, "text-anchor": "middle" }, svg);
    label.textContent = names[0].name;
    if (names[1]) {
      const y = box.y + box.height / 2;
      const turned = `rotate(-90 14 ${y})`;
      element("text", { x: 14, y, "text-anchor": "middle", transform: turned }, svg).textContent = names[1].name;
    }
  }

  function cells({ shape, values }, low, high) {
    const [rows, columns] = shape;
    const width = box.width / (rows - 1);
    const height = box.height / (columns - 1);
    const drawn = [];
    values.forEach((value, place) => {
      if (value === null) return;
      const row = Math.floor(place / columns);
      const column = place % columns;
      // A point that was measured early stands for its neighbours until they are.
      let reach = 1;
      while (reach < 8 && row % (2 * reach) === 0 && column % (2 * reach) === 0) {
        const next = (row + reach < rows ? row + reach : row - reach) * columns + column;
        if (values[next] !== null && values[next] !== undefined) break;
        reach *= 2;
      }
      const x0 = Math.max(box.x, box.x + (row - reach / 2) * width);
      const x1 = Math.min(box.x + box.width, box.x + (row + reach / 2) * width);
      const y0 = Math.max(box.y, box.y + box.height - (column + reach / 2) * height);
      const y1 = Math.min(box.y + box.height, box.y + box.height - (column - reach / 2) * height);
      const fill = colour(high > low ? (value - low) / (high - low) : 1);
      drawn.push([reach, { x: x0, y: y0, width: x1 - x0 + 0.3, height: y1 - y0 + 0.3, fill }]);
    });
    drawn.sort((a, b) => b[0] - a[0]);
    for (const [, place] of drawn) element("rect", place, svg);
  }

  function drawPlane(points, state) {
    const known = points.values.filter((value) => value !== null);
    const high = Math.max(...known);
    const low = Math.max(Math.min(...known), high * 0.8);
    cells(points, low, high);
    axes(free);
    for (const [i, mark] of state.marks.entries()) {
      if (mark.measure && mark.measure !== state.measure) continue;
      if (mark.path.length > 1) {
        const d = mark.path.map((own, i) => `${i ? "L" : "M"}${at(own).join(" ")}`).join("");
        element("path", { class: "path", d }, svg);
      }
      const [x, y] = at(mark.setting);
      element("path", { class: "mark", d: `M${x - 5} ${y}h10M${x} ${y - 5}v10` }, svg);
      const right = x > box.x + box.width - 70;
      const place = { class: "name", x: right ? x - 8 : x + 8, y: y + [-6, 16, -19, 29][i % 4], "text-anchor": right ? "end" : "start" };
      element("text", place, svg).textContent = mark.name;
    }
    const [px, py] = at(state.pinned);
    element("circle", { class: "pinned", cx: px, cy: py, r: 7 }, svg);
    const [x, y] = at(state.setting);
    handle.setAttribute("cx", x);
    handle.setAttribute("cy", y);
    const said = free.map((own) => `${own.name} ${state.setting[own.name]}`).join(", ");
    handle.setAttribute("aria-label", "the setting: arrow keys move it, with Shift ten times as far");
    handle.setAttribute("aria-valuetext", said);
    svg.append(handle);
    svg.setAttribute("aria-label", `${state.measure} over ${free[0].name} and ${free[1].name}, highest ${high.toFixed(4)}`);
  }

  function drawLines(points, state) {
    const known = points.values.filter((value) => value !== null);
    const high = Math.max(...known);
    const low = Math.min(...known);
    const each = points.shape[1];
    const y = (value) => box.y + box.height * (1 - (high > low ? (value - low) / (high - low) : 0.5));
    free.forEach((own, line) => {
      let d = "";
      for (let i = 0; i < each; i++) {
        const value = points.values[line * each + i];
        if (value !== null) d += `${d ? "L" : "M"}${box.x + (box.width * i) / (each - 1)} ${y(value)}`;
      }
      element("path", { class: `line line-${line % 6}`, d }, svg);
      const name = element("text", { class: `name line-${line % 6}`, x: box.x + 6, y: box.y + 14 + 15 * line }, svg);
      name.textContent = own.name;
      const x = box.x + box.width * placeOf(own, state.setting[own.name]);
      element("circle", { class: `dot line-${line % 6}`, cx: x, cy: y(state.mean ?? low), r: 5 }, svg);
    });
    for (const [value, place] of [[low, 1], [high, 0]])
      element("text", { x: box.x - 6, y: box.y + box.height * place + 4, "text-anchor": "end" }, svg).textContent =
        value.toFixed(3);
    const label = element("text", { x: box.x + box.width / 2, y: 424, "text-anchor": "middle" }, svg);
    label.textContent = "each from its low end to its high one, the others as they are";
    svg.setAttribute("aria-label", `${state.measure} along each parameter, highest ${high.toFixed(4)}`);
  }

  return {
    svg,
    draw(points, state) {
      last = state;
      const focused = document.activeElement === handle;
      svg.replaceChildren();
      if (!points || points.values.every((value) => value === null)) return;
      (planar ? drawPlane : drawLines)(points, state);
      if (focused) handle.focus();
    },
  };
}
