// The page: its state, and the calls of the modules that draw it.

import { ask, changed as moved, exportPage, isKept, keptState, latencies } from "explore/source";
import { makeSliders } from "explore/sliders";
import { makeSurface, pairOf } from "explore/surface";
import { importances, makeProfiles } from "explore/profiles";
import { drawRankings, drawTopics, makeStrip, short } from "explore/topics";
import { drawDocument } from "explore/document";
import { asCsv, asSvg, drawComparison, makeComparison, save } from "explore/share";

const page = document.getElementById("page");
page.textContent = "opening …";
const about = await ask("description").catch((error) => {
  page.textContent = error.message;
  throw error;
});
const isRuns = about.model === "";
const byName = (name) => page.querySelector(`[data-part=${name}]`);

page.innerHTML = `
<header><h1 data-part="title"></h1><p data-part="hint"></p><p data-part="problem" role="alert" hidden></p></header>
<section class="controls" aria-label="parameters">
  <p class="buttons" data-part="menus" hidden></p>
  <div data-part="sliders"></div>
  <p class="buttons"><label>Go to <select data-part="marks"></select></label>
  <button type="button" data-part="undo" disabled>Undo</button></p>
  <p class="buttons"><label data-part="name-label">Name <input data-part="name" size="8" maxlength="24" placeholder="pin 1"></label>
  <button type="button" data-part="pin">Pin this setting</button>
  <button type="button" data-part="back">Back to the pinned setting</button></p>
</section>
<section class="comparison" data-part="comparison" aria-live="polite"></section>
<section class="picture"><p class="buttons"><label>Measure <select data-part="measure"></select></label>
  <label data-part="smooth-label"><input type="checkbox" data-part="smooth"> Smooth approximation</label>
  <span class="progress" data-part="progress"><span>Measuring settings: <span data-part="percent">0 %</span></span>
  <progress max="1" value="0" aria-label="settings measured"></progress></span></p>
  <div data-part="surface"></div><div data-part="profiles"></div><p data-part="along"></p><p data-part="under"></p><p data-part="near"></p><p data-part="bound"></p></section>
<section class="taking"><p><code data-part="command"></code></p>
  <p class="buttons"><button type="button" data-part="copy">Copy the command</button>
  <button type="button" data-part="csv">Comparison (CSV)</button>
  <button type="button" data-part="svg">Picture (SVG)</button>
  <button type="button" data-part="html">This view (HTML)</button></p></section>
<section class="topics"><div data-part="strip"></div>
  <p class="buttons"><span data-part="counts"></span> <span data-part="choices"><button type="button" data-part="losing">Show topics that lose</button>
  <button type="button" data-part="winning">Show topics that win</button>
  <button type="button" data-part="everyone">Show all topics</button></span></p>
  <p><label data-part="half-label"><input type="checkbox" data-part="half"> Choose on half of the topics, test on the other half</label></p>
  <p><label>Find a topic <input type="search" data-part="filter"></label></p>
  <div class="scroll" tabindex="0" role="region" aria-label="topics"><table data-part="topics"><caption></caption>
  <thead><tr><th scope="col">topic</th><th scope="col">text</th><th scope="col" class="number">value</th><th scope="col" class="number">difference</th></tr></thead>
  <tbody></tbody></table></div></section>
<section class="rankings" data-part="rankings" hidden></section>
<section class="explained" data-part="explained" hidden></section>`;

// A menu for each categorical parameter. Each combination has its own page below the same token.
if (about.menus && !isKept) {
  const { choices, cases, now } = about.menus;
  const token = location.pathname.split("/")[1];
  byName("menus").hidden = false;
  for (const [name, values] of Object.entries(choices)) {
    const menu = document.createElement("select");
    menu.name = name;
    for (const value of values) menu.add(new Option(value, value, false, value === cases[now][name]));
    menu.addEventListener("change", () => {
      const wanted = { ...cases[now], [name]: menu.value };
      const path = Object.keys(cases).find((own) => Object.keys(choices).every((key) => cases[own][key] === wanted[key]));
      location.href = `/${token}/${path}/`;
    });
    const label = document.createElement("label");
    label.append(`${name} `, menu);
    byName("menus").append(label, " ");
  }
}

const parameters = about.parameters;
const axes = parameters.filter((own) => about.axes.includes(own.name));
const isWhole = axes.length <= 2; // the picture does not depend on the setting
const names = parameters.map((own) => own.name);
const start = about.marks[0].setting;
// The page starts with the default pinned, at the recommended setting or the best point of the surface.
const recommended = about.marks.find((own) => own.recommended)?.setting;
const labels = Object.fromEntries(about.measures.map((measure, i) => [measure, about.labels[i]]));
const state = { setting: { ...start }, pinned: { ...start }, measure: about.measures[0], topic: null, docno: null, smooth: false, topics: null, half: false, plane: axes.length === 2 ? about.axes : null };
let waitsForBest = !keptState && !location.hash && !recommended && isWhole;
if (!location.hash && recommended) state.setting = { ...recommended };
Object.assign(state, keptState ?? (location.hash ? fromAddress() : {}));
const past = []; // the states for Undo
const tried = new Set();
let changed = -Infinity;
let answer = null;
let before = null;
let pictures = {}; // the values of the plane and of the lines so far
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
  const plane = about.axes.filter((name) => given.get("plane")?.split(",").includes(name));
  return {
    setting: setting(""),
    pinned: setting("pinned."),
    measure: about.measures.includes(given.get("measure")) ? given.get("measure") : about.measures[0],
    topic: about.topics.some((own) => own.id === topic) ? topic : null,
    docno: given.get("docno"),
    smooth: given.get("smooth") === "1",
    ...(plane.length === 2 && !isKept ? { plane } : {}),
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
  if (state.plane && !isWhole) kept.set("plane", state.plane);
  history.replaceState(null, "", `#${kept}`);
}

function tell(error) {
  byName("problem").textContent = error ? error.message : "";
  byName("problem").hidden = !error;
}

// Background loops show errors but do not clear them.
const guardedLoop = (work) => () => work().catch(tell);
const guarded = (work) => (...given) => work(...given).then(() => tell(null), tell);

const place = () => about.measures.indexOf(state.measure);
const showSliders = makeSliders(byName("sliders"), parameters, change, isRuns);
const drawStrip = makeStrip(byName("strip"), isKept ? null : choose);
const tellPoint = (text) => (byName("under").textContent = text);
const surface = makeSurface(byName("surface"), parameters, change, tellPoint);
const drawProfiles = makeProfiles(byName("profiles"), axes.length === 2 ? [] : axes, isWhole || isKept ? null : chooseAxis, tellPoint);
const table = makeComparison(byName("comparison"));

// One step of Undo reverts a whole drag: changes without a pause.
function remember() {
  if (performance.now() - changed > 700) past.push({ setting: { ...state.setting }, pinned: { ...state.pinned } });
  changed = performance.now();
  byName("undo").disabled = past.length === 0;
  waitsForBest = false;
}

const asText = (isIn) => about.topics.map((_, i) => (isIn(i) ? "1" : "0")).join("");
const half = new Set(about.topics.map((_, i) => i).filter((i) => about.half[i] === "1"));

// Half of the topics is in the picture; the comparison is on the other half.
function halve(isHalved) {
  waitsForBest = isHalved && isWhole;
  choose(isHalved ? half : null, isHalved);
}

// Select the topics of the picture; null for all.
function choose(topics, isHalved = false) {
  if (state.half !== isHalved) {
    state.half = byName("half").checked = isHalved;
    tried.clear();
    follow();
  }
  state.topics = topics?.size && topics.size < about.topics.length ? topics : null;
  pictures = {};
  drawTable();
  drawPicture();
  look();
}

// The axes of the plane are the last two selected parameters.
function chooseAxis(name) {
  if (state.plane?.includes(name)) return;
  state.plane = [state.plane?.[1], name].filter(Boolean);
  if (state.plane.length < 2) state.plane = null;
  pictures.plane = null;
  toAddress();
  drawPicture();
  look();
}

function change(given) {
  const some = moved(parameters, state.setting, given);
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
  // An exported page shows the nearest of its settings.
  if (isKept) state.setting = { ...found.setting };
  if (isKept) showSliders(state.setting, true);
  toAddress();
  byName("command").textContent = answer.command;
  drawPicture();
  drawTable();
  look();
  await Promise.all([compareThem(), rankThem()]);
  if (answer.changed) throw new Error("the index has changed: start lmtune explore again");
});

async function compareThem() {
  const { setting, pinned } = state;
  const found = await ask("compared", { setting, pinned, topics: state.half ? asText((i) => !half.has(i)) : "" });
  if (found === null) return;
  compared = found;
  drawComparison(table, compared, labels, tried.size, state.half ? about.topics.length - half.size : 0);
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

// The part that all settings of a picture share: other parameters, and the proportions of other shares.
function through(setting, plane) {
  if (isWhole) return "";
  const rests = plane ? [pairOf(parameters, plane)[1]].filter((rest) => rest.length) : [];
  const fixed = parameters.filter((own) => !plane?.includes(own.name));
  return fixed.map((own) => {
    const rest = rests.find((group) => group.includes(own)) ?? (own.share && plane ? sharing(own, plane) : []);
    const total = rest.reduce((sum, other) => sum + setting[other.name], 0);
    return (rest.length ? setting[own.name] / total || 1 / rest.length : setting[own.name]).toPrecision(5);
  }).join();
}

const sharing = (own, plane) => parameters.filter((other) => other.share === own.share && !plane.includes(other.name));

let looking = 0;
const look = guardedLoop(async () => {
  const own = ++looking;
  const topics = state.topics ? asText((i) => state.topics.has(i)) : "";
  // Request missing values; return whether the picture is complete.
  const fetched = async (kind, plane) => {
    const wanted = [state.measure, state.smooth, topics, plane, through(state.setting, plane)].join();
    if (pictures[kind]?.wanted === wanted && pictures[kind].done >= 1) return true;
    const asked = { setting: state.setting, measure: state.measure, smooth: state.smooth, topics, plane: plane?.join() ?? "" };
    const found = await ask("surface", asked);
    if (own !== looking || found === null) return false;
    pictures[kind] = { ...found, wanted };
    if (found.error) {
      byName("progress").hidden = true;
      throw new Error(found.error);
    }
    return found.done >= 1;
  };
  while (own === looking) {
    let done = axes.length === 2 || (await fetched("lines", null));
    if (own === looking && done && !isWhole && !isKept) state.plane ??= mattering();
    if (own === looking && state.plane) done = (await fetched("plane", state.plane)) && done;
    if (own !== looking) return;
    const shares = Object.values(pictures).filter(Boolean).map((picture) => picture.done);
    const share = Math.min(...shares, 1);
    byName("progress").querySelector("progress").value = share;
    byName("percent").textContent = `${Math.floor(100 * share)} %`;
    byName("progress").hidden = done;
    drawPicture();
    if (done) return toBest();
    await new Promise((wait) => setTimeout(wait, 300));
  }
});

// The two axes with the largest ranges of the measure.
function mattering() {
  const ranges = importances(pictures.lines);
  const best = about.axes.map((_, i) => i).sort((a, b) => ranges[b] - ranges[a]).slice(0, 2);
  return best.sort((a, b) => a - b).map((i) => about.axes[i]);
}

// Go to the best point of the picture, unless the user has changed the setting.
function toBest() {
  if (!waitsForBest || (state.topics && !state.half) || state.smooth) return;
  const best = bestOf(pictures.plane ?? pictures.lines);
  about.marks.push({ name: state.half ? "best of half" : "best drawn", measure: state.measure, setting: best.setting, path: [], bound: null });
  listMarks();
  change(best.setting);
  if (state.half) return;
  past.length = 0;
  byName("undo").disabled = true;
}

function bestOf({ settings, values }) {
  const value = Math.max(...values.filter((own) => own !== null));
  const setting = settings[values.indexOf(value)];
  const rounded = (own, i) => (own.share ? setting[i] : Number(setting[i].toPrecision(6)));
  return { value, setting: Object.fromEntries(parameters.map((own, i) => [own.name, rounded(own, i)])) };
}

function drawPicture() {
  const mean = state.topics ? null : answer?.means[place()];
  const some = state.topics ? ` of ${state.topics.size} of ${about.topics.length} topics` : "";
  const { plane, lines } = pictures;
  byName("near").textContent = plane?.near
    ? `${plane.near.includes(true) ? "Outlined: points" : "No point is"} proven within ${plane.margin} of the best point, ${short(bestOf(plane).value)}${some}; the smallest bound is ${short(Math.ceil(plane.least * 1e4) / 1e4)} (one-sided 95%, all points together).`
    : "";
  const here = through(state.setting, state.plane);
  const isHere = (setting) => through(setting, state.plane) === here;
  const shown = { ...state, label: labels[state.measure], marks: about.marks, mean: state.smooth ? null : (mean ?? null), isHere };
  surface.draw(plane, shown);
  byName("along").textContent = lines ? drawProfiles(lines, shown) : "";
  const bounds = about.marks.filter((own) => own.bound !== null && own.measure === state.measure);
  byName("bound").textContent = bounds.length
    ? `Proven: no settings, one for each fold, exceed ${short(Math.ceil(bounds[0].bound * 1e4) / 1e4)} on the test topics.`
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
  const chosen = state.topics ? `; the picture has ${state.topics.size} ${state.half ? "to choose on" : "selected topics"}` : "";
  byName("counts").textContent = `${wins} topics better than with the pinned setting, ${losses} worse${chosen}.`;
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
  ? "An exported page: sliders select the nearest of its settings."
  : "Move a slider or the ring on the picture. Pin a setting to compare others with it. Open a topic to see its rankings, and a document to see its score.";
for (const measure of about.measures) byName("measure").append(new Option(labels[measure], measure));
byName("measure").value = state.measure;
function listMarks() {
  const options = about.marks.map((own, i) => new Option(own.measure ? `${own.name} for ${own.measure}` : own.name, i));
  byName("marks").replaceChildren(new Option("…", ""), ...options);
}
listMarks();
byName("smooth").checked = state.smooth;
byName("half-label").hidden = isKept || !about.half;
byName("topics").classList.toggle("textless", isRuns);
for (const name of ["smooth-label", "copy", "html", "pin", "name-label", "choices"]) byName(name).hidden = isKept;
byName("measure").addEventListener("change", (event) => {
  state.measure = event.target.value;
  pictures = {};
  change({});
});
byName("smooth").addEventListener("change", (event) => {
  state.smooth = event.target.checked;
  pictures = {};
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
byName("half").addEventListener("change", (event) => halve(event.target.checked));
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
drawPicture();
await pin();
