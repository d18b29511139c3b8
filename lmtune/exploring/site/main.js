// The page: its state, and who draws what of it.

import { ask, exportPage, isKept, keptState, latencies } from "explore/source";
import { makeSliders } from "explore/sliders";
import { makeSurface } from "explore/surface";
import { drawRankings, drawTopics, makeStrip, short } from "explore/topics";
import { drawDocument } from "explore/document";
import { asCsv, asSvg, drawComparison, makeComparison, save } from "explore/share";

const page = document.getElementById("page");
const about = await ask("description");
const isRuns = about.model === "";
const byName = (name) => page.querySelector(`[data-part=${name}]`);

page.innerHTML = `
<header><h1 data-part="title"></h1><p data-part="hint"></p><p data-part="problem" role="alert" hidden></p></header>
<section class="controls" aria-label="parameters">
  <div data-part="sliders"></div>
  <p class="buttons"><label>go to <select data-part="marks"></select></label>
  <button type="button" data-part="undo" disabled>Undo</button></p>
  <p class="buttons"><label data-part="name-label">name <input data-part="name" size="8" maxlength="24" placeholder="pin 1"></label>
  <button type="button" data-part="pin">Pin this setting</button>
  <button type="button" data-part="back">Back to the pinned one</button></p>
</section>
<section class="comparison" data-part="comparison" aria-live="polite"></section>
<section class="picture"><p class="buttons"><label>measure <select data-part="measure"></select></label>
  <label data-part="smooth-label"><input type="checkbox" data-part="smooth"> its smooth form</label>
  <progress data-part="progress" max="1" aria-label="settings measured"></progress></p>
  <div data-part="surface"></div><p data-part="under"></p><p data-part="near"></p><p data-part="bound"></p></section>
<section class="taking"><p><code data-part="command"></code></p>
  <p class="buttons"><button type="button" data-part="copy">Copy the command</button>
  <button type="button" data-part="csv">Comparison (CSV)</button>
  <button type="button" data-part="svg">Picture (SVG)</button>
  <button type="button" data-part="html">This view (HTML)</button></p></section>
<section class="topics"><div data-part="strip"></div>
  <p class="buttons"><span data-part="counts"></span> <span data-part="choices"><button type="button" data-part="losing">Look at those that lose</button>
  <button type="button" data-part="winning">at those that win</button>
  <button type="button" data-part="everyone">at all</button></span></p>
  <p><label>find a topic <input type="search" data-part="filter"></label></p>
  <div class="scroll" tabindex="0" role="region" aria-label="topics"><table data-part="topics"><caption></caption>
  <thead><tr><th scope="col">topic</th><th scope="col">text</th><th scope="col" class="number">value</th><th scope="col" class="number">difference</th></tr></thead>
  <tbody></tbody></table></div></section>
<section class="rankings" data-part="rankings" hidden></section>
<section class="explained" data-part="explained" hidden></section>`;

const parameters = about.parameters;
const planar = parameters.filter((own) => !own.fixed).length === 2;
const names = parameters.map((own) => own.name);
const start = about.marks[0].setting;
// The page begins with the default pinned against what is recommended, or else the best that the surface has.
const recommended = about.marks.find((own) => own.recommended)?.setting;
const labels = Object.fromEntries(about.measures.map((measure, i) => [measure, about.labels[i]]));
const state = { setting: { ...start }, pinned: { ...start }, measure: about.measures[0], topic: null, docno: null, smooth: false, topics: null };
let waitsForBest = !keptState && !location.hash && !recommended && planar;
if (!location.hash && recommended) state.setting = { ...recommended };
Object.assign(state, keptState ?? (location.hash ? fromAddress() : {}));
const past = []; // what Undo goes back to
const tried = new Set();
let changed = -Infinity;
let answer = null;
let before = null;
let points = null;
let compared = null;

function fromAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const setting = (prefix) =>
    Object.fromEntries(
      parameters.map((own) => {
        const value = Number(given.get(prefix + own.name) ?? NaN);
        return [own.name, value >= own.low && value <= own.high ? value : start[own.name]];
      }),
    );
  const topic = given.get("topic");
  return {
    setting: setting(""),
    pinned: setting("pinned."),
    measure: about.measures.includes(given.get("measure")) ? given.get("measure") : about.measures[0],
    topic: about.topics.some((own) => own.id === topic) ? topic : null,
    docno: given.get("docno"),
    smooth: given.get("smooth") === "1",
  };
}

function toAddress() {
  const kept = new URLSearchParams();
  for (const name of names) kept.set(name, state.setting[name]);
  for (const name of names) kept.set(`pinned.${name}`, state.pinned[name]);
  kept.set("measure", state.measure);
  if (state.topic !== null) kept.set("topic", state.topic);
  if (state.topic !== null && state.docno) kept.set("docno", state.docno);
  if (state.smooth) kept.set("smooth", "1");
  history.replaceState(null, "", `#${kept}`);
}

function tell(error) {
  byName("problem").textContent = error ? error.message : "";
  byName("problem").hidden = !error;
}

// What goes on by itself tells of what is wrong, and never that all is well.
const guardedLoop = (work) => () => work().catch(tell);
const guarded = (work) => (...given) => work(...given).then(() => tell(null), tell);

const place = () => about.measures.indexOf(state.measure);
const showSliders = makeSliders(byName("sliders"), parameters, change, isRuns);
const drawStrip = makeStrip(byName("strip"), isKept ? null : choose);
const surface = makeSurface(byName("surface"), parameters, change, (text) => (byName("under").textContent = text));
const table = makeComparison(byName("comparison"));

// One step of Undo is a whole drag: what changes without a rest.
function remember() {
  if (performance.now() - changed > 700) past.push({ setting: { ...state.setting }, pinned: { ...state.pinned } });
  changed = performance.now();
  byName("undo").disabled = past.length === 0;
  waitsForBest = false;
}

// Whose means the surface shows: some topics', or all of them.
function choose(topics) {
  state.topics = topics?.size && topics.size < about.topics.length ? topics : null;
  points = null;
  drawTable();
  drawPicture();
  look();
}

function change(some) {
  if (names.some((name) => name in some && some[name] !== state.setting[name])) remember();
  Object.assign(state.setting, some);
  showSliders(state.setting);
  drawPicture();
  follow();
}

const follow = guarded(async () => {
  const found = await ask("measured", { setting: state.setting });
  if (found === null) return;
  answer = found;
  tried.add(JSON.stringify(found.setting));
  // A copy has settings of its own, and what it shows is of the nearest.
  if (isKept) state.setting = { ...found.setting };
  if (isKept) showSliders(state.setting, true);
  toAddress();
  byName("command").textContent = answer.command;
  drawPicture();
  drawTable();
  look();
  await Promise.all([compareThem(), rankThem()]);
  if (answer.changed) throw new Error("the index has changed since: start lmtune explore again");
});

async function compareThem() {
  const found = await ask("compared", { setting: state.setting, pinned: state.pinned });
  if (found === null) return;
  compared = found;
  drawComparison(table, compared, labels, tried.size);
}

async function rankThem() {
  byName("rankings").hidden = byName("explained").hidden = true;
  if (state.topic === null || isKept) return;
  const found = await ask("ranked", { topic: state.topic, setting: state.setting, pinned: state.pinned });
  if (found === null) return;
  byName("rankings").hidden = false;
  drawRankings(byName("rankings"), found, state.docno, (docno) => {
    state.docno = docno;
    toAddress();
    explain().then(() => byName("explained").scrollIntoView({ block: "nearest" }));
  });
  await explainThem();
}

async function explainThem() {
  if (!state.docno) return;
  const found = await ask("explained", { topic: state.topic, docno: state.docno, setting: state.setting, pinned: state.pinned });
  if (found === null) return;
  byName("explained").hidden = false;
  drawDocument(byName("explained"), found, isRuns);
}
const explain = guarded(explainThem);

let looking = 0;
const look = guardedLoop(async () => {
  const own = ++looking;
  // A surface stays when the setting moves; lines go through it.
  const through = planar ? [] : Object.values(state.setting);
  const topics = state.topics ? about.topics.map((_, i) => (state.topics.has(i) ? "1" : "0")).join("") : "";
  const wanted = [state.measure, state.smooth, topics, ...through].join();
  if (points?.wanted === wanted && points.done >= 1) return;
  while (own === looking) {
    const found = await ask("surface", { setting: state.setting, measure: state.measure, smooth: state.smooth, topics });
    if (own !== looking) return;
    if (found !== null) {
      points = { ...found, wanted };
      byName("progress").value = points.done;
      byName("progress").hidden = points.done >= 1;
      drawPicture();
      if (points.error) throw new Error(points.error);
      if (points.done >= 1) return toBest();
    }
    await new Promise((done) => setTimeout(done, 300));
  }
});

// Where nobody has moved anything yet, go to the top of the surface.
function toBest() {
  if (!waitsForBest || state.topics || state.smooth) return;
  const best = bestOf(points);
  about.marks.push({ name: "best drawn", measure: state.measure, setting: best.setting, path: [], bound: null });
  listMarks();
  change(best.setting);
  past.length = 0;
  byName("undo").disabled = true;
}

function bestOf({ settings, values }) {
  const value = Math.max(...values.filter((own) => own !== null));
  const setting = settings[values.indexOf(value)];
  return { value, setting: Object.fromEntries(names.map((name, i) => [name, Number(setting[i].toPrecision(6))])) };
}

function drawPicture() {
  const mean = state.topics ? null : answer?.means[place()];
  const some = state.topics ? ` of ${state.topics.size} of ${about.topics.length} topics` : "";
  byName("near").textContent = points?.near
    ? `Outlined: not significantly worse than the best drawn, ${short(bestOf(points).value)}${some}, by a paired t-test each; exploratory, as these topics chose it.`
    : "";
  surface.draw(points, { ...state, label: labels[state.measure], marks: about.marks, mean: state.smooth ? null : mean });
  const bounds = about.marks.filter((own) => own.bound !== null && own.measure === state.measure);
  byName("bound").textContent = bounds.length
    ? `No setting, one a fold, exceeds ${short(Math.ceil(bounds[0].bound * 1e4) / 1e4)} on the test topics: proven.`
    : "";
}

function drawTable() {
  if (answer === null || before === null) return;
  const onOpen = (topic) => {
    Object.assign(state, { topic, docno: null });
    toAddress();
    drawTable();
    open().then(() => byName("rankings").scrollIntoView({ block: "nearest" }));
  };
  const filter = byName("filter").value;
  const given = { topics: about.topics, place: place(), now: answer.values, then: before.values };
  const differences = answer.values.map((own, i) => own[place()] - before.values[i][place()]);
  const [wins, losses] = drawStrip(differences, state.topics);
  const chosen = state.topics ? `; the ${state.topics.size} chosen are looked at` : "";
  byName("counts").textContent = `${wins} topics better than pinned, ${losses} worse${chosen}.`;
  drawTopics(byName("topics"), { ...given, filter, chosen: state.topics, open: state.topic, onOpen: isKept ? null : onOpen });
}
const open = guarded(rankThem);

const pin = guarded(async () => {
  before = null;
  tried.add(JSON.stringify(state.pinned));
  while (before === null) before = await ask("measured", { setting: state.pinned });
  await follow();
});

byName("title").textContent = isRuns ? about.name : `${about.name}: ${about.model}`;
byName("hint").textContent = isKept
  ? "A copy: sliders go to the nearest of the settings that it keeps."
  : "Drag a slider, or the ring on the picture. Pin a setting to compare with it; open a topic to see what moved, and a document to see why.";
for (const measure of about.measures) byName("measure").append(new Option(labels[measure], measure));
byName("measure").value = state.measure;
function listMarks() {
  const options = about.marks.map((own, i) => new Option(own.measure ? `${own.name} for ${own.measure}` : own.name, i));
  byName("marks").replaceChildren(new Option("…", ""), ...options);
}
listMarks();
byName("smooth").checked = state.smooth;
byName("topics").classList.toggle("textless", isRuns);
for (const name of ["smooth-label", "copy", "html", "pin", "name-label", "choices"]) byName(name).hidden = isKept;
byName("measure").addEventListener("change", (event) => {
  state.measure = event.target.value;
  points = null;
  change({});
});
byName("smooth").addEventListener("change", (event) => {
  state.smooth = event.target.checked;
  points = null;
  change({});
});
byName("marks").addEventListener("change", (event) => {
  if (event.target.value) change(about.marks[event.target.value].setting);
  event.target.value = "";
});
let pins = 0;
byName("pin").addEventListener("click", () => {
  changed = -Infinity;
  remember();
  changed = -Infinity;
  state.pinned = { ...state.setting };
  pins += 1;
  about.marks.push({ name: byName("name").value.trim() || `pin ${pins}`, measure: "", setting: { ...state.setting }, path: [], bound: null });
  Object.assign(byName("name"), { value: "", placeholder: `pin ${pins + 1}` });
  listMarks();
  pin();
});
byName("undo").addEventListener("click", () => {
  const last = past.pop();
  Object.assign(state, { setting: { ...last.setting }, pinned: { ...last.pinned } });
  byName("undo").disabled = past.length === 0;
  changed = -Infinity;
  showSliders(state.setting);
  pin();
});
const those = (sign) => {
  const chosen = about.topics.map((_, i) => i).filter((i) => Math.sign(answer.values[i][place()] - before.values[i][place()]) === sign);
  choose(new Set(chosen));
};
byName("losing").addEventListener("click", () => those(-1));
byName("winning").addEventListener("click", () => those(1));
byName("everyone").addEventListener("click", () => choose(null));
byName("back").addEventListener("click", () => change(state.pinned));
byName("filter").addEventListener("input", drawTable);
byName("copy").addEventListener("click", () => navigator.clipboard.writeText(answer.command));
byName("csv").addEventListener("click", () => save("comparison.csv", "text/csv", asCsv(compared)));
byName("svg").addEventListener("click", () => save("picture.svg", "image/svg+xml", asSvg(surface.svg)));
byName("html").addEventListener(
  "click",
  guarded(async () => save("explore.html", "text/html", await exportPage(state))),
);
addEventListener("hashchange", () => {
  Object.assign(state, fromAddress(), isKept ? { pinned: keptState.pinned } : {});
  showSliders(state.setting);
  pin();
});

window.lmtune = { latencies };
showSliders(state.setting);
await pin();
