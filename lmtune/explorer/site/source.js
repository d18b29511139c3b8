// The source of answers: the server of this page, or the settings in an exported file.

const exported = document.getElementById("exported");
const content = exported ? JSON.parse(exported.textContent) : null;
const page = Math.random().toString(36).slice(2);
const serials = {};
const waiting = {};

export const isKept = content !== null;
// The steps of a slider; in an exported page, the settings in the file.
export const steps = content ? Object.values(content.pictures)[0].shape[1] - 1 : 1000;
export const keptState = content ? { ...content.state, plane: content.state.plane ? content.state.plane.split(",") : null } : null;
export const latencies = [];

// Ask a question. The answer is null if a later question of the same kind has been asked.
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
    throw error instanceof TypeError ? new Error("lmtune is not running: start it again and reload the page") : error;
  }
}

export async function exportPage({ setting, pinned, measure, plane }) {
  const asked = { setting, pinned, measure, plane: plane?.join() ?? "" };
  const response = await fetch("export", { method: "POST", body: JSON.stringify(asked) });
  if (!response.ok) throw new Error((await response.json()).error);
  return response.text();
}

// A parameter's position from 0 to 1 on its slider, and back.
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

const sum = (names, setting) => names.reduce((total, name) => total + setting[name], 0);

// A setting with some values changed. Other shares of the same group divide the rest of 1 in proportion.
export function changed(parameters, setting, some) {
  const next = { ...setting, ...some };
  for (const share of new Set(parameters.filter((own) => own.share && own.name in some).map((own) => own.share))) {
    const group = parameters.filter((own) => own.share === share).map((own) => own.name);
    const others = group.filter((name) => !(name in some));
    if (!others.length) continue;
    const [left, total] = [1 - sum(group.filter((name) => name in some), some), sum(others, setting)];
    for (const name of others)
      next[name] = Number((left * (total > 0 ? setting[name] / total : 1 / others.length)).toFixed(6));
    const largest = others.reduce((most, name) => (next[name] > next[most] ? name : most));
    const rest = sum(group.filter((name) => name !== largest), next); // the largest share absorbs rounding
    next[largest] = Math.max(0, Number((1 - rest).toFixed(6)));
  }
  return next;
}

function answerKept(kind, given) {
  const { description, answers, pictures } = content;
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
    const measure = description.measures.indexOf(given.measure);
    const { shape, places, first } = pictures[given.plane];
    const settings = Array(shape[0] * shape[1]).fill(null);
    const values = [...settings];
    answers.slice(first, first + places.length).forEach(({ measured }, i) => {
      settings[places[i]] = description.parameters.map((own) => measured.setting[own.name]);
      values[places[i]] = measured.means[measure];
    });
    return {
      settings,
      values,
      shape,
      near: null,
      done: 1,
      error: "",
    };
  }
  throw new Error("this exported page has means and topics only; run lmtune explore to see documents");
}
