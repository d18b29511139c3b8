// The measure over two parameters as a square, or as a triangle for two of several shares.

import { isKept, placeOf, steps, valueAt } from "explore/source";
import { short } from "explore/topics";

const SVG = "http://www.w3.org/2000/svg";
// Cividis: readable with colour-vision deficiencies, and in grey.
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

export function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

export const shown = (value) => Number(value.toPrecision(3)).toLocaleString("en");

// The geometry of a square: the map from two positions in [0, 1] to the picture and back, the values of positions,
// and the corners and neighbours of a point's cell in steps of the grid.
function squareOf(pair) {
  const box = { x: 62, y: 12, width: 330, height: 330 };
  return {
    box,
    cell: [[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]],
    beside: [[0, -1], [1, 0], [0, 1], [-1, 0]],
    point: (u, v) => [box.x + box.width * u, box.y + box.height * (1 - v)],
    back: (x, y) => [(x - box.x) / box.width, 1 - (y - box.y) / box.height],
    inside: (places) => places.map((own) => Math.min(Math.max(own, 0), 1)),
    places: (setting) => pair.map((own) => placeOf(own, setting[own.name])),
    values: (places) => Object.fromEntries(pair.map((own, i) => [own.name, valueAt(own, places[i])])),
    said: (places) => pair.map((own, i) => `${own.name} ${shown(valueAt(own, places[i]))}`).join(", "),
    moves: { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] },
  };
}

// The geometry of a triangle: the two parameters are the lower corners, the others in proportion the upper one.
function triangleOf(pair, others) {
  const box = { x: 62, y: 34, width: 330, height: 286 };
  const middle = box.x + box.width / 2;
  const corners = [pair[0].name, pair[1].name, others.length > 1 ? `${others.length} others` : others[0].name];
  return {
    box,
    corners,
    cell: [[1, 1], [-1, 2], [-2, 1], [-1, -1], [1, -2], [2, -1]].map((own) => own.map((thirds) => thirds / 3)),
    beside: [[0, 1], [-1, 1], [-1, 0], [0, -1], [1, -1], [1, 0]],
    point: (u, v) => [middle + (box.width / 2) * (v - u), box.y + box.height * (u + v)],
    back(x, y) {
      const [sum, difference] = [(y - box.y) / box.height, (x - middle) / (box.width / 2)];
      return [(sum - difference) / 2, (sum + difference) / 2];
    },
    inside(places) {
      const [u, v] = places.map((own) => Math.max(own, 0));
      return [u / Math.max(1, u + v), v / Math.max(1, u + v)];
    },
    places: (setting) => pair.map((own) => setting[own.name]),
    values: (places) => Object.fromEntries(pair.map((own, i) => [own.name, Math.max(own.low, Number(places[i].toFixed(4)))])),
    said: ([u, v]) => [u, v, 1 - u - v].map((own, i) => `${corners[i]} ${short(Math.abs(own), 3)}`).join(", "),
    moves: { ArrowLeft: [1, -1], ArrowRight: [-1, 1], ArrowDown: [0.5, 0.5], ArrowUp: [-0.5, -0.5] },
  };
}

// Two parameters by name, and the other shares of their group.
export function pairOf(parameters, plane) {
  const pair = plane.map((name) => parameters.find((own) => own.name === name));
  const isShared = pair[0].share && pair[0].share === pair[1].share;
  return [pair, isShared ? parameters.filter((own) => own.share === pair[0].share && !pair.includes(own)) : []];
}

export function makeSurface(parent, parameters, onChange, onPoint = () => {}) {
  const svg = element("svg", { class: "surface", viewBox: "0 0 480 400", role: "group" }, parent);
  // One picture for assistive technology; the ring can be focused.
  const picture = element("g", { role: "img" }, svg);
  let last = null;
  let drawn = null;
  let [plane, pair, form, box] = [null, null, null, null];

  function describe(words) {
    svg.setAttribute("aria-label", words);
    picture.setAttribute("aria-label", words);
  }

  function spread(names) {
    if (names.join() === plane) return;
    const [both, others] = pairOf(parameters, names);
    [plane, pair, form] = [names.join(), both, others.length ? triangleOf(both, others) : squareOf(both)];
    box = form.box;
    svg.setAttribute("viewBox", `0 0 480 ${box.y + box.height + 52}`);
  }

  const at = (setting) => form.point(...form.places(setting));
  function placesOf(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return form.back(point.x, point.y);
  }

  function drag(event) {
    if (form && event.buttons & 1) onChange(form.values(form.inside(placesOf(event))));
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

  // The text about the point nearest to the pointer.
  function under(event) {
    if (!drawn) return "";
    const places = placesOf(event);
    if (form.inside(places).some((place, i) => Math.abs(place - places[i]) > 1e-9)) return "";
    const { shape, values, near, margin } = drawn;
    const [row, column] = shape.map((size, i) => Math.round(places[i] * (size - 1)));
    const value = values[row * shape[1] + column];
    if (value === null) return "";
    const best = Math.max(...values.filter((other) => other !== null));
    const proven = near?.[row * shape[1] + column] ? `, proven within ${margin}` : "";
    const said = form.said([row / (shape[0] - 1), column / (shape[1] - 1)]);
    return `${said}: ${short(value)}${value < best ? `, ${short(best - value)} below the best${proven}` : ", the best"}`;
  }

  const handle = element("circle", { class: "handle", r: 9, tabindex: 0, role: "slider", visibility: "hidden" }, svg);
  handle.setAttribute("aria-label", "setting: arrow keys move it, with Shift ten times as far");
  handle.addEventListener("keydown", (event) => {
    const move = form.moves[event.key];
    if (!move) return;
    event.preventDefault();
    const step = isKept ? 1 / steps : event.shiftKey ? 0.1 : 0.01;
    onChange(form.values(form.inside(form.places(last.setting).map((own, i) => own + move[i] * step))));
  });

  const write = (text, place, attributes = {}) => {
    element("text", { x: place[0], y: place[1], ...attributes }, picture).textContent = text;
  };
  const tick = (x, y, dx, dy) => element("path", { class: "tick", d: `M${x} ${y}l${dx} ${dy}` }, picture);

  function axes() {
    if (form.corners) return edges();
    const [across, up] = pair;
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

  // Label a triangle: corners are single runs; lines of equal shares have numbers at their ends.
  function edges() {
    const line = (from, to) => element("path", { class: "guide", d: `M${form.point(...from)}L${form.point(...to)}` }, picture);
    for (const share of [0.25, 0.5, 0.75]) {
      const rest = 1 - share;
      line([share, 0], [share, rest]);
      line([0, share], [rest, share]);
      line([rest, 0], [0, rest]);
      const [left, below, right] = [form.point(share, 0), form.point(rest, share), form.point(0, rest)];
      write(short(share, 2), [left[0] - 8, left[1] + 2], { "text-anchor": "end" });
      write(short(share, 2), [below[0], below[1] + 16], { "text-anchor": "middle" });
      write(short(share, 2), [right[0] + 8, right[1] + 2]);
    }
    const most = [26, 26, 44]; // letters that fit
    [[1, 0, 20], [0, 1, 20], [0, 0, -10]].forEach(([u, v, down], i) => {
      const [x, y] = form.point(u, v);
      const text = form.corners[i].length > most[i] ? `${form.corners[i].slice(0, most[i] - 1)}…` : form.corners[i];
      write(text, [x, y + down + (i < 2 ? 14 : 0)], { "text-anchor": "middle", class: "corner" });
    });
  }

  // The colour bar, from the highest value to the cut; all lower values have one colour.
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

  function cells({ shape, values }, low, high, parent) {
    const [rows, columns] = shape;
    const parts = [];
    values.forEach((value, place) => {
      if (value === null) return;
      const row = Math.floor(place / columns);
      const column = place % columns;
      // A coarse point fills the cells of its neighbours until they are evaluated.
      let reach = 1;
      while (reach < 8 && row % (2 * reach) === 0 && column % (2 * reach) === 0) {
        const next = (row + reach < rows ? row + reach : row - reach) * columns + column;
        if (values[next] !== null && values[next] !== undefined) break;
        reach *= 2;
      }
      const d = `M${form.cell.map(([down, right]) => edge(shape, row + down * reach, column + right * reach)).join("L")}Z`;
      const fill = colour(high > low ? (value - low) / (high - low) : 1);
      parts.push([reach, { class: "cell", d, fill, stroke: fill }]);
    });
    parts.sort((a, b) => b[0] - a[0]);
    for (const [, cell] of parts) element("path", cell, parent);
  }

  // A position between grid points in the picture; squares are clipped to their range.
  function edge(shape, ...between) {
    const places = between.map((own, i) => own / (shape[i] - 1));
    return form.point(...(form.corners ? places : form.inside(places)));
  }

  // The outline of the near-optimal region.
  function outline({ shape, near }, parent) {
    const [rows, columns] = shape;
    const isNear = (row, column) => row >= 0 && row < rows && column >= 0 && column < columns && near[row * columns + column];
    let d = "";
    near.forEach((own, place) => {
      const [row, column] = [Math.floor(place / columns), place % columns];
      const ends = own ? form.cell.map(([down, right]) => edge(shape, row + down, column + right)) : [];
      ends.forEach((end, i) => {
        const [down, right] = form.beside[i];
        if (!isNear(row + down, column + right)) d += `M${end}L${ends[(i + 1) % ends.length]}`;
      });
    });
    for (const kind of ["near halo", "near"]) element("path", { class: kind, d }, parent);
  }

  // Clip the picture to the triangle.
  function clipped() {
    if (!form.corners) return picture;
    const corners = [[0, 0], [1, 0], [0, 1]].map((own) => form.point(...own));
    const clip = element("clipPath", { id: "triangle" }, picture);
    element("path", { d: `M${corners.join("L")}Z` }, clip);
    return element("g", { "clip-path": "url(#triangle)" }, picture);
  }

  // Names beside their marks, without overlaps if there is room.
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
    const inside = clipped();
    cells(points, low, high, inside);
    if (points.near) outline(points, inside);
    axes();
    bar(low, high, lowest < low);
    const marks = new Map();
    for (const mark of state.marks) {
      if ((mark.measure && mark.measure !== state.measure) || !state.isHere(mark.setting)) continue;
      if (mark.path.length > 1) {
        const d = mark.path.map((own, i) => `${i ? "L" : "M"}${at(own).join(" ")}`).join("");
        element("path", { class: "path", d }, picture);
      }
      const [x, y] = at(mark.setting);
      element("path", { class: "mark", d: `M${x - 5} ${y}h10M${x} ${y - 5}v10` }, picture);
      const here = `${Math.round(x / 2)} ${Math.round(y / 2)}`; // marks at the same point share a text
      if (form.corners?.includes(mark.name)) continue; // the corner has the name
      marks.set(here, { name: marks.has(here) ? `${marks.get(here).name}, ${mark.name}` : mark.name, at: [x, y] });
    }
    names([...marks.values()]);
    const [px, py] = at(state.pinned);
    if (state.isHere(state.pinned)) element("circle", { class: "pinned", cx: px, cy: py, r: 7 }, picture);
    const [x, y] = at(state.setting);
    const said = Object.keys(form.values(form.places(state.setting))).map((name) => `${name} ${state.setting[name]}`).join(", ");
    const place = { cx: x, cy: y, visibility: "visible", "aria-valuetext": said };
    const values = { min: pair[0].low, max: pair[0].high, now: state.setting[pair[0].name] };
    for (const [name, value] of Object.entries(values)) place[`aria-value${name}`] = value;
    for (const [name, value] of Object.entries(place)) handle.setAttribute(name, value);
    describe(`${state.label} over ${form.corners ? `shares of ${form.corners.join(", ")}` : pair.map((own) => own.name).join(" and ")}, highest ${short(high)}`);
  }

  function drawEmpty() {
    const words = "no setting measured yet";
    const corners = form.corners ? [[0, 0], [1, 0], [0, 1]] : [[0, 0], [1, 0], [1, 1], [0, 1]];
    element("path", { class: "frame", d: `M${corners.map((own) => form.point(...own)).join("L")}Z` }, picture);
    axes();
    write(words, [box.x + box.width / 2, box.y + box.height / 2], { "text-anchor": "middle" });
    describe(words);
  }

  return {
    svg,
    draw(points, state) {
      [last, drawn] = [state, points];
      picture.replaceChildren();
      handle.setAttribute("visibility", "hidden");
      svg.toggleAttribute("hidden", !state.plane);
      if (!state.plane) return;
      spread(state.plane);
      if (points?.values.some((value) => value !== null)) drawPlane(points, state);
      else drawEmpty();
    },
  };
}
