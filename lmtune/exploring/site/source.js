// Where answers come from: lmtune behind this page's address, or settings kept in this file.

const kept = document.getElementById("kept");
const content = kept ? JSON.parse(kept.textContent) : null;
const page = Math.random().toString(36).slice(2);
const serials = {};
const waiting = {};

export const isKept = content !== null;
// Of a slider, from one end to the other: in a copy from one kept setting to the next.
export const steps = content ? content.shape[1] - 1 : 1000;
export const keptState = content ? content.state : null;
export const latencies = [];

// Ask a question. An answer that a later question of its kind has overtaken is null.
export async function ask(kind, given = {}) {
  if (content) return answerKept(kind, given);
  const serial = (serials[kind] = (serials[kind] ?? 0) + 1);
  waiting[kind]?.abort();
  const stop = (waiting[kind] = new AbortController());
  const begun = performance.now();
  try {
    const response = await fetch(`ask/${kind}`, {
      method: "POST",
      body: JSON.stringify({ ...given, page, serial }),
      signal: stop.signal,
    });
    if (response.status === 409) return null;
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    if (kind === "measured") latencies.push(performance.now() - begun);
    return serial === serials[kind] ? answer : null;
  } catch (error) {
    if (error.name === "AbortError") return null;
    throw error instanceof TypeError ? new Error("lmtune has ended: start it again, and reload") : error;
  }
}

export async function exportPage({ setting, pinned, measure }) {
  const response = await fetch("export", { method: "POST", body: JSON.stringify({ setting, pinned, measure }) });
  if (!response.ok) throw new Error((await response.json()).error);
  return response.text();
}

// A parameter's place from 0 to 1 on the scale along which it is dragged, and back.
export function placeOf(parameter, value) {
  const { low, high, scale } = parameter;
  if (scale === "log") return Math.log(value / low) / Math.log(high / low);
  return (value - low) / (high - low);
}

export function valueAt(parameter, place) {
  const { low, high, scale } = parameter;
  if (place <= 0) return low;
  if (place >= 1) return high;
  const value = scale === "log" ? low * (high / low) ** place : low + (high - low) * place;
  return Number(value.toPrecision(6));
}

function answerKept(kind, given) {
  const { description, answers, shape } = content;
  const free = description.parameters.filter((own) => !own.fixed);
  const distance = (setting) =>
    free.reduce(
      (sum, own) => sum + (placeOf(own, setting[own.name]) - placeOf(own, given.setting[own.name])) ** 2,
      0,
    );
  const nearest = () =>
    answers.reduce((best, own) =>
      distance(own.measured.setting) < distance(best.measured.setting) ? own : best,
    );
  if (kind === "description") return description;
  if (kind === "measured" || kind === "compared") return nearest()[kind];
  if (kind === "surface" && !given.smooth) {
    const place = description.measures.indexOf(given.measure);
    const points = answers.slice(-shape[0] * shape[1]);
    return {
      settings: points.map((own) => description.parameters.map((p) => own.measured.setting[p.name])),
      values: points.map((own) => own.measured.means[place]),
      shape,
      near: null,
      done: 1,
      error: "",
    };
  }
  throw new Error("this copy holds means and topics only: lmtune explore shows documents");
}
