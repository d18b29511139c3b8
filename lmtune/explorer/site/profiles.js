// The measure along each parameter with the others fixed: small plots on one scale, the largest range first.

import { placeOf, valueAt } from "explore/source";
import { element, shown } from "explore/surface";
import { cell, short } from "explore/topics";

const MOST = 12;

// The range of the known values of each line.
export function importances({ shape, values }) {
  const lines = Array.from({ length: shape[0] }, (_, line) => values.slice(line * shape[1], (line + 1) * shape[1]));
  return lines.map((line) => {
    const known = line.filter((value) => value !== null);
    return known.length ? Math.max(...known) - Math.min(...known) : 0;
  });
}

export function makeProfiles(parent, axes, onChoose, onPoint) {
  const isAlone = axes.length === 1;
  const box = isAlone ? { x: 8, y: 8, width: 424, height: 200 } : { x: 8, y: 8, width: 144, height: 64 };
  const made = axes.map((own) => {
    const kind = onChoose ? "button" : "figure";
    const figure = cell(parent, "", kind, onChoose ? { type: "button", title: `${own.what}: use as an axis` } : {});
    figure.className = "profile";
    const said = cell(figure, own.name, "strong");
    const range = cell(figure, "", "small");
    const svg = element("svg", { viewBox: `0 0 ${box.width + 16} ${box.height + 28}`, class: "surface", "aria-hidden": "true" }, figure);
    figure.addEventListener("click", () => onChoose?.(own.name));
    figure.addEventListener("pointerleave", () => onPoint(""));
    return { own, figure, said, range, svg };
  });

  function drawLine({ own, svg }, line, near, y, state) {
    const x = (i) => box.x + (box.width * i) / (line.length - 1);
    const path = (isShown) =>
      line.map((value, i) => (value !== null && isShown(i) ? `${i && line[i - 1] !== null && isShown(i - 1) ? "L" : "M"}${x(i)} ${y(value)}` : "")).join("");
    svg.replaceChildren();
    element("path", { class: "tick", d: `M${box.x} ${box.y}v${box.height}h${box.width}` }, svg);
    if (near) element("path", { class: "line wide", d: path((i) => near[i]) }, svg);
    element("path", { class: "line", d: path(() => true) }, svg);
    const here = box.x + box.width * placeOf(own, state.setting[own.name]);
    if (state.mean !== null) element("circle", { class: "dot", cx: here, cy: y(state.mean), r: 4 }, svg);
    for (const [place, anchor] of [[0, "start"], [1, "end"]]) {
      const at = { x: box.x + box.width * place, y: box.y + box.height + 15, "text-anchor": anchor };
      element("text", at, svg).textContent = shown(valueAt(own, place));
    }
  }

  return (points, state) => {
    if (!points) return "";
    const known = points.values.filter((value) => value !== null);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const y = (value) => box.y + box.height * (high > low ? Math.min(Math.max((high - value) / (high - low), 0), 1) : 0.5);
    const each = points.shape[1];
    const ranges = importances(points);
    const order = made.map((_, i) => i);
    if (points.done >= 1) order.sort((a, b) => ranges[b] - ranges[a]);
    order.forEach((i, place) => {
      const { own, figure, range, svg } = made[i];
      figure.hidden = place >= MOST;
      figure.style.order = place;
      if (onChoose) figure.setAttribute("aria-pressed", Boolean(state.plane?.includes(own.name)));
      range.textContent = `range ${short(ranges[i])}`;
      const slice = (all) => all.slice(i * each, (i + 1) * each);
      if (place < MOST) drawLine(made[i], slice(points.values), points.near && slice(points.near), y, state);
      figure.onpointermove = (event) => {
        const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
        const step = Math.round(Math.min(Math.max((point.x - box.x) / box.width, 0), 1) * (each - 1));
        const value = points.values[i * each + step];
        onPoint(value === null ? "" : `${own.name} ${shown(valueAt(own, step / (each - 1)))}: ${short(value)}`);
      };
    });
    const some = made.length > MOST ? ` These are ${MOST} of ${made.length} parameters.` : "";
    const ordered = isAlone ? "" : " along each parameter, with the others fixed; the largest range first";
    const choose = onChoose ? " Click a plot to use its parameter as an axis of the picture above." : "";
    const near = points.near ? ` Wide line: proven within ${points.margin} of the best of these (one-sided 95%, all points together).` : "";
    return `${state.label} in [${short(low)}, ${short(high)}]${ordered}.${near}${some}${choose}`;
  };
}
