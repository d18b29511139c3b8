// The measure over two parameters as a picture, or along each of several as lines.

import { isKept, placeOf, steps, valueAt } from "explore/source";
import { short } from "explore/topics";

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

// The way a name is written where there is room for some letters alone.
const cut = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
const shown = (value) => Number(value.toPrecision(3)).toLocaleString("en");

export function makeSurface(parent, parameters, onChange, onPoint = () => {}) {
  const free = parameters.filter((own) => !own.fixed);
  const planar = free.length === 2;
  const box = planar ? { x: 62, y: 12, width: 330, height: 330 } : { x: 124, y: 12, width: 330, height: 300 };
  const height = planar ? 400 : box.height + 52 + 17 * free.length;
  const svg = element("svg", { class: "surface", viewBox: `0 0 480 ${height}`, role: "group" }, parent);
  // What is seen, as one picture; the ring beside it can be reached.
  const picture = element("g", { role: "img" }, svg);
  let last = null;
  let drawn = null;
  describe("no setting is measured yet");

  function describe(words) {
    svg.setAttribute("aria-label", words);
    picture.setAttribute("aria-label", words);
  }

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
  svg.addEventListener("pointermove", (event) => {
    drag(event);
    onPoint(under(event));
  });
  svg.addEventListener("pointerleave", () => onPoint(""));

  // What is known of the point, or of the places on all lines, that is nearest to the pointer.
  function under(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const places = [(point.x - box.x) / box.width, 1 - (point.y - box.y) / box.height];
    if (!drawn || places.some((place) => place < 0 || place > 1)) return "";
    const { shape, values, near } = drawn;
    if (!planar) {
      const step = Math.round(places[0] * (shape[1] - 1));
      const each = free.map((own, line) => [own, values[line * shape[1] + step]]).filter(([, value]) => value !== null);
      const value = (own) => shown(valueAt(own, step / (shape[1] - 1)));
      return each.map(([own, mean]) => `${own.name} ${value(own)}: ${short(mean)}`).join("; ");
    }
    const [row, column] = shape.map((size, i) => Math.round(places[i] * (size - 1)));
    const value = values[row * shape[1] + column];
    if (value === null) return "";
    const setting = free.map((own, i) => `${own.name} ${shown(valueAt(own, [row, column][i] / (shape[i] - 1)))}`);
    const best = Math.max(...values.filter((other) => other !== null));
    const doubt = near && value < best ? (near[row * shape[1] + column] ? ", not significantly" : ", significantly") : "";
    return `${setting.join(", ")}: ${short(value)}${value < best ? `, ${short(best - value)} below the best${doubt}` : ", the best"}`;
  }

  const handle = planar ? element("circle", { class: "handle", r: 9, tabindex: 0, role: "slider" }, svg) : null;
  handle?.setAttribute("visibility", "hidden");
  handle?.setAttribute("aria-label", "the setting: arrow keys move it, with Shift ten times as far");
  handle?.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const [which, sign] = move;
    const own = free[which];
    const step = isKept ? 1 / steps : event.shiftKey ? 0.1 : 0.01;
    onChange({ [own.name]: valueAt(own, placeOf(own, last.setting[own.name]) + sign * step) });
  });

  const write = (text, place, attributes = {}) => {
    element("text", { x: place[0], y: place[1], ...attributes }, picture).textContent = text;
  };
  const tick = (x, y, dx, dy) => element("path", { class: "tick", d: `M${x} ${y}l${dx} ${dy}` }, picture);

  function axes() {
    const [across, up] = free;
    const [bottom, middle] = [box.y + box.height, box.y + box.height / 2];
    for (const place of [0, 0.25, 0.5, 0.75, 1]) {
      const [x, y] = [box.x + box.width * place, bottom - box.height * place];
      tick(x, bottom, 0, 5);
      tick(box.x, y, -5, 0);
      write(shown(valueAt(across, place)), [x, bottom + 18], { "text-anchor": "middle" });
      write(shown(valueAt(up, place)), [box.x - 8, y + 4], { "text-anchor": "end" });
    }
    write(across.name, [box.x + box.width / 2, bottom + 38], { "text-anchor": "middle" });
    write(up.name, [12, middle], { "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` });
  }

  // What the colours stand for: from the highest value down to where all that is lower looks the same.
  function bar(low, high, isCut) {
    const [x, width, parts] = [box.x + box.width + 14, 14, 40];
    for (let i = 0; i < parts; i++) {
      const y = box.y + (box.height * i) / parts;
      element("rect", { x, y, width, height: box.height / parts + 0.3, fill: colour(1 - i / (parts - 1)) }, picture);
    }
    for (const place of high > low ? [0, 0.25, 0.5, 0.75, 1] : [0]) {
      const y = box.y + box.height * place;
      tick(x + width, y, 4, 0);
      write(`${place === 1 && isCut ? "≤" : ""}${short(high - place * (high - low))}`, [x + width + 6, y + 4]);
    }
  }

  function cells({ shape, values }, low, high) {
    const [rows, columns] = shape;
    const width = box.width / (rows - 1);
    const height = box.height / (columns - 1);
    const parts = [];
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
      parts.push([reach, { x: x0, y: y0, width: x1 - x0 + 0.3, height: y1 - y0 + 0.3, fill }]);
    });
    parts.sort((a, b) => b[0] - a[0]);
    for (const [, place] of parts) element("rect", place, picture);
  }

  // The edge, along cells, between what is not significantly worse than the best and all else.
  function outline({ shape, near }) {
    const [rows, columns] = shape;
    const [width, height] = [box.width / (rows - 1), box.height / (columns - 1)];
    const isNear = (row, column) => row >= 0 && row < rows && column >= 0 && column < columns && near[row * columns + column];
    const x = (row) => Math.min(Math.max(box.x + (row - 0.5) * width, box.x), box.x + box.width);
    const y = (column) => Math.min(Math.max(box.y + box.height - (column - 0.5) * height, box.y), box.y + box.height);
    let d = "";
    for (let row = 0; row <= rows; row++)
      for (let column = 0; column <= columns; column++) {
        if (isNear(row, column) !== isNear(row - 1, column)) d += `M${x(row)} ${y(column)}V${y(column + 1)}`;
        if (isNear(row, column) !== isNear(row, column - 1)) d += `M${x(row)} ${y(column)}H${x(row + 1)}`;
      }
    for (const kind of ["near halo", "near"]) element("path", { class: kind, d }, picture);
  }

  // Names beside their marks, each where no other name or mark is yet, as far as there is room.
  function names(marks) {
    const taken = marks.map(({ at: [x, y] }) => ({ x: x - 6, y: y - 6, width: 12, height: 12 }));
    const meets = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
    for (const { name, at: [x, y] } of marks) {
      const width = 7.2 * name.length + 2;
      const tries = [];
      for (const down of [-8, 16, 4, -22, 30, -36, 44])
        for (const side of [8, -8 - width]) tries.push({ x: x + side, y: y + down - 11, width, height: 14 });
      const isInside = (own) => own.x > box.x && own.x + width < box.x + box.width && own.y > box.y;
      const inside = tries.filter(isInside);
      const free = inside.find((own) => !taken.some((other) => meets(own, other))) ?? inside[0] ?? tries[0];
      taken.push(free);
      write(name, [free.x + 1, free.y + 11], { class: "name" });
    }
  }

  function drawPlane(points, state) {
    const known = points.values.filter((value) => value !== null);
    const high = Math.max(...known);
    const lowest = Math.min(...known);
    const low = Math.max(lowest, high - 0.2 * Math.abs(high));
    cells(points, low, high);
    if (points.near) outline(points);
    axes();
    bar(low, high, lowest < low);
    const marks = new Map();
    for (const mark of state.marks) {
      if (mark.measure && mark.measure !== state.measure) continue;
      if (mark.path.length > 1) {
        const d = mark.path.map((own, i) => `${i ? "L" : "M"}${at(own).join(" ")}`).join("");
        element("path", { class: "path", d }, picture);
      }
      const [x, y] = at(mark.setting);
      element("path", { class: "mark", d: `M${x - 5} ${y}h10M${x} ${y - 5}v10` }, picture);
      const here = `${Math.round(x / 2)} ${Math.round(y / 2)}`; // one name for what is in one place
      marks.set(here, { name: marks.has(here) ? `${marks.get(here).name}, ${mark.name}` : mark.name, at: [x, y] });
    }
    names([...marks.values()]);
    const [px, py] = at(state.pinned);
    element("circle", { class: "pinned", cx: px, cy: py, r: 7 }, picture);
    const [x, y] = at(state.setting);
    const said = free.map((own) => `${own.name} ${state.setting[own.name]}`).join(", ");
    const place = { cx: x, cy: y, visibility: "visible", "aria-valuetext": said };
    const values = { min: free[0].low, max: free[0].high, now: state.setting[free[0].name] };
    for (const [name, value] of Object.entries(values)) place[`aria-value${name}`] = value;
    for (const [name, value] of Object.entries(place)) handle.setAttribute(name, value);
    describe(`${state.label} over ${free[0].name} and ${free[1].name}, highest ${short(high)}`);
  }

  // Below, each parameter has a scale of its own, beside a piece of its line.
  function scales() {
    const places = [0, 0.25, 0.5, 0.75, 1];
    for (const place of places) tick(box.x + box.width * place, box.y + box.height, 0, 5);
    free.forEach((own, line) => {
      const y = box.y + box.height + 22 + 17 * line;
      element("path", { class: `line line-${line % 6}`, d: `M2 ${y - 4}h20` }, picture);
      write(cut(own.name, 13), [26, y]);
      for (const place of places)
        write(shown(valueAt(own, place)), [box.x + box.width * place, y], { "text-anchor": "middle" });
    });
    const y = box.y + box.height + 32 + 17 * free.length;
    write("each along its range, the others as they are", [box.x + box.width / 2, y], { "text-anchor": "middle" });
  }

  function drawLines(points, state) {
    const known = points.values.filter((value) => value !== null);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const each = points.shape[1];
    const y = (value) => box.y + box.height * (1 - (high > low ? (value - low) / (high - low) : 0.5));
    element("path", { class: "tick", d: `M${box.x} ${box.y}v${box.height}h${box.width}` }, picture);
    for (const place of high > low ? [0, 0.25, 0.5, 0.75, 1] : [0.5]) {
      const value = low + place * (high - low);
      tick(box.x, y(value), -5, 0);
      write(short(value), [box.x - 8, y(value) + 4], { "text-anchor": "end" });
    }
    scales();
    free.forEach((own, line) => {
      let d = "";
      for (let i = 0; i < each; i++) {
        const value = points.values[line * each + i];
        if (value !== null) d += `${d ? "L" : "M"}${box.x + (box.width * i) / (each - 1)} ${y(value)}`;
      }
      element("path", { class: `line line-${line % 6}`, d }, picture);
    });
    free.forEach((own, line) => {
      const x = box.x + box.width * placeOf(own, state.setting[own.name]);
      const here = Math.min(Math.max(y(state.mean ?? low), box.y), box.y + box.height);
      element("circle", { class: `dot line-${line % 6}`, cx: x, cy: here, r: 5 }, picture);
    });
    describe(`${state.label} along each of ${free.map((own) => own.name).join(", ")}, highest ${short(high)}`);
  }

  return {
    svg,
    draw(points, state) {
      [last, drawn] = [state, points];
      picture.replaceChildren();
      handle?.setAttribute("visibility", "hidden");
      if (!points || points.values.every((value) => value === null)) return;
      (planar ? drawPlane : drawLines)(points, state);
    },
  };
}
