// The page of a hive. It asks the same interface as everybody; all text is set as text, never as markup.
"use strict";

const content = document.getElementById("content");
let token = null;
let shown = 0;

try { token = sessionStorage.getItem("token"); } catch { /* a browser that keeps nothing */ }

// An element with attributes, texts and children.
function el(name, attributes, ...children) {
  const svg = ["svg", "rect", "path", "line"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.flat().filter(child => child !== null && child !== undefined).map(child => child instanceof Node ? child : String(child)));
  return made;
}

async function ask(path) {
  const response = await fetch(path, { headers: { Authorization: "Bearer " + token } });
  if (response.status === 401) throw new Refused();
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

class Refused extends Error {}

function logIn(message) {
  document.getElementById("login").hidden = false;
  document.getElementById("refused").textContent = message;
  content.replaceChildren();
}

document.getElementById("login").addEventListener("submit", event => {
  event.preventDefault();
  open(document.getElementById("token").value.trim());
});

function open(given) {
  token = given;
  try { sessionStorage.setItem("token", token); } catch { /* kept for this page only */ }
  document.getElementById("login").hidden = true;
  show();
  follow();
}

const words = { "true-race": "true races", "unknown": "unknown", "likely-false": "likely false" };
const one = { "true-race": "true race", "unknown": "unknown", "likely-false": "likely false" };
const number = new Intl.NumberFormat("en");
const time = seconds => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");

// What the address names: #program or #program/candidate.
async function show() {
  const mine = ++shown;
  try {
    const { programs } = await ask("v1/programs");
    const [wanted, candidate] = decodeURIComponent(location.hash.slice(1)).split("/");
    const program = programs.find(program => program.name === wanted) || programs[0];
    const links = programs.map(it => el("a", it === program ? { href: "#" + it.name, "aria-current": "page" } : { href: "#" + it.name }, it.name));
    let parts;
    if (!program) parts = [el("p", {}, "No program has been added yet: ", el("code", {}, "norns hive add ./PROGRAM"))];
    else if (candidate) parts = race(program.name, await ask(`v1/programs/${program.name}/races/${encodeURIComponent(candidate)}`));
    else parts = overview(await ask("v1/programs/" + program.name), await ask(`v1/programs/${program.name}/races`));
    if (mine !== shown) return;
    document.getElementById("programs").replaceChildren(...links);
    content.replaceChildren(...parts);
    document.body.dataset.ready = "yes";
  } catch (error) {
    if (mine !== shown) return;
    if (error instanceof Refused) logIn(token ? "The hive does not know this token." : "");
    else content.replaceChildren(el("p", { class: "why" }, error.message));
  }
}

function overview(program, { races }) {
  const count = verdict => races.filter(race => race.verdict === verdict).length;
  const day = program.hours.filter(hour => hour.hour > program.now / 3600 - 24);
  const sum = name => day.reduce((all, hour) => all + hour[name], 0);
  const overhead = sum("wall_ms") ? 100 * (sum("runtime_cpu_us") / 1000 + sum("waited_ms")) / sum("wall_ms") : 0;
  const figure = (name, value, kind) => el("div", kind ? { class: kind } : {}, el("strong", {}, value), name);
  const parts = [
    el("div", { class: "figures" },
      Object.keys(words).map(verdict => figure(words[verdict], number.format(count(verdict)), verdict)),
      figure("runs in 24 hours", number.format(sum("runs"))),
      figure("reports in 24 hours", number.format(sum("reports"))),
      figure("overhead", overhead.toFixed(2) + " %")),
    el("div", { class: "charts" },
      chart("Runs per hour", bars(program, hour => hour.runs)),
      chart("Overhead in percent, by hour", bars(program, hour => hour.wall_ms ? 100 * (hour.runtime_cpu_us / 1000 + hour.waited_ms) / hour.wall_ms : 0)),
      chart("Verdicts over time", curves(program),
        el("span", { class: "key true-race quiet" }, "true races"), el("span", { class: "key quiet" }, "likely false"))),
  ];
  for (const verdict of Object.keys(words)) {
    const list = races.filter(race => race.verdict === verdict);
    if (list.length) parts.push(el("h2", {}, words[verdict] + " ", el("small", {}, number.format(list.length))), candidates(list));
  }
  if (!races.length) parts.push(el("p", {}, "The scan of this program has no candidate."));
  parts.push(el("h2", {}, "builds"), builds(program.builds));
  return parts;
}

// At most so many rows: a page with more says so.
const ROWS = 300;

function candidates(list) {
  const cell = (name, value) => el("td", { class: "number", "data-name": name }, number.format(value));
  const rows = list.slice(0, ROWS).map(race => el("tr", {},
    el("td", {}, el("a", { href: `#${race.program}/${race.id}` }, race.object || race.id)),
    el("td", {}, race.places.map((place, at) => [at ? el("br") : null, place.access, " ", el("code", {}, `${place.file}:${place.line}`), " in ", el("code", {}, place.function)]).flat()),
    cell("race", race.reports.race), cell("no race", race.reports.no_race), cell("time-out", race.reports.timeout), cell("not seen", race.reports.not_seen)));
  const head = ["candidate", "places"].map(name => el("th", {}, name)).concat(["race", "no race", "time-out", "not seen"].map(name => el("th", { class: "number" }, name)));
  const more = list.length > ROWS ? el("p", { class: "quiet" }, `and ${number.format(list.length - ROWS)} more: norns hive races lists all`) : null;
  return el("div", { class: "wide" }, el("table", { class: "list" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)), more);
}

function builds(list) {
  const rows = list.slice().reverse().map(build => el("tr", {},
    el("td", {}, el("code", {}, build.id.slice(0, 12)), " ", build.label), el("td", {}, time(build.added)),
    Object.keys(words).map(verdict => el("td", { class: "number", "data-name": words[verdict] }, number.format(build.verdicts[verdict])))));
  const head = ["build", "added (UTC)"].map(name => el("th", {}, name)).concat(Object.values(words).map(name => el("th", { class: "number" }, name)));
  return el("div", { class: "wide" }, el("table", { class: "list" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)));
}

const WIDTH = 480, HEIGHT = 100, SPAN = 48;

function chart(title, drawing, ...keys) {
  return el("div", {}, el("h2", {}, title, ...keys), drawing);
}

function frame(title, top, shapes) {
  return el("div", {}, el("span", { class: "quiet" }, top), el("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 2}`, role: "img", "aria-label": title, preserveAspectRatio: "none" },
    shapes, el("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT })));
}

function bars(program, value) {
  const now = Math.floor(program.now / 3600);
  const most = Math.max(0, ...program.hours.map(value));
  const shapes = program.hours.map(hour => {
    const height = most ? value(hour) / most * (HEIGHT - 2) : 0;
    const at = SPAN - 1 - (now - hour.hour);
    return el("rect", { class: "bar", x: at * WIDTH / SPAN + 1, y: HEIGHT - height, width: WIDTH / SPAN - 2, height });
  });
  const top = most >= 10 || Number.isInteger(most) ? number.format(Math.round(most)) : most.toFixed(2);
  return frame("by hour, 48 hours", "most: " + top, shapes);
}

function curves(program) {
  const first = Math.min(...program.verdicts.map(change => change.at), program.now - 3600);
  const shapes = [];
  const counts = {};
  for (const change of program.verdicts) counts[change.verdict] = (counts[change.verdict] || 0) + 1;
  const most = Math.max(0, ...Object.values(counts));
  for (const verdict of ["likely-false", "true-race"]) {
    let path = `M0 ${HEIGHT}`, count = 0;
    for (const change of program.verdicts.filter(change => change.verdict === verdict)) {
      count += 1;
      path += `H${(change.at - first) / (program.now - first) * WIDTH}V${HEIGHT - count / most * (HEIGHT - 2)}`;
    }
    if (count) shapes.push(el("path", { class: "curve " + verdict, d: path + `H${WIDTH}` }));
  }
  return frame("candidates with a verdict", "most: " + number.format(most), shapes);
}

function race(program, detail) {
  const { race, candidate } = detail;
  const [first, second] = race.places;
  const verbs = { read: "reads", write: "writes", update: "updates" };
  const name = candidate.object ? [" ", el("code", {}, candidate.object)] : [];
  const title = el("h2", {}, "data race: ", el("code", {}, first.function), " " + verbs[first.access], name, ", ", el("code", {}, second.function), " " + verbs[second.access], " it");
  const counts = `${race.reports.race} race, ${race.reports.no_race} no race, ${race.reports.timeout} time-out, ${race.reports.not_seen} not seen`;
  const verdicts = {
    "true-race": "A run made both accesses from different threads, and nothing ordered them.",
    "likely-false": "Every run that made both accesses had an order between them, or the order asked for did not come in the longest time. No run can prove that there is no race.",
    "unknown": detail.context_seen ? "Different threads touched the same address here; no run has shown yet whether something orders them." : "No run has made both accesses on one address yet.",
  };
  const parts = [
    el("p", {}, el("a", { href: "#" + program }, "← " + program)), title,
    el("p", { class: "quiet" }, `${one[race.verdict]} · ${counts} · build ${detail.build.slice(0, 12)}`),
    el("p", { class: "why " + race.verdict }, verdicts[race.verdict]),
    el("div", { class: "sources" }, race.places.map((place, at) => source(place, detail.excerpts[at]))),
  ];
  detail.evidence.forEach(seen => parts.push(...evidence(race, seen)));
  if (detail.history.length) parts.push(el("p", { class: "quiet" }, detail.history.map(change => `${one[change.verdict]} since ${time(change.at)} UTC`).join(" · ")));
  parts.push(el("p", {}, "Bring it home: ", el("code", {}, "norns hive pull " + race.id)));
  return parts;
}

function source(place, excerpt) {
  const head = el("div", { class: "quiet" }, `${place.file}:${place.line} — ${place.function}, ${place.access}`);
  if (!excerpt) return el("div", {}, head, el("pre", {}, el("span", {}, "the source was not added")));
  const lines = excerpt.lines.map((line, at) => el("span", excerpt.first + at === place.line ? { class: "hit" } : {}, el("i", {}, excerpt.first + at), line));
  return el("div", {}, head, el("pre", {}, lines));
}

function evidence(race, { build, received, report }) {
  const places = report.order === "primary" ? race.places : race.places.slice().reverse();
  const frames = stack => el("div", { class: "quiet" }, stack.map(frame => {
    const where = frame.file ? `${frame.file}:${frame.line}` : `${frame.module}+0x${frame.offset.toString(16)}`;
    return el("div", {}, `${frame.function || "?"} at ${where}`);
  }));
  const steps = report.result === "race" ? places.map((place, at) => el("li", {},
    el("span", { class: "dot " + place.access }), `${place.access} at ${place.file}:${place.line} in ${place.function}`, report.stacks && report.stacks[at] ? frames(report.stacks[at]) : null)) : [];
  const failed = report.consequence;
  if (failed) steps.push(el("li", {}, el("span", { class: "dot failure" }), `the program then failed: ${failed.kind}${failed.signal ? " " + failed.signal : ""}`, frames(failed.stack)));
  return [el("h2", {}, "What a run did ", el("small", {}, `${time(received)} UTC · build ${build.slice(0, 12)} · waited ${report.tau_ms} ms`)), el("ol", { class: "order" }, steps)];
}

// Server-sent events, read by hand: EventSource cannot send the token.
async function follow() {
  const mine = token;
  const state = document.getElementById("state");
  while (token === mine) {
    try {
      const response = await fetch("v1/events", { headers: { Authorization: "Bearer " + token } });
      if (!response.ok) throw new Error(String(response.status));
      state.textContent = "live";
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let first = true; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        if (value.includes("event: changed") && !first) show();
        if (value.includes("event: changed")) first = false;
      }
    } catch { /* asked again below */ }
    state.textContent = "not connected";
    await new Promise(resolve => setTimeout(resolve, 3000));
    if (!document.getElementById("login").hidden) return;
    show();
  }
}

addEventListener("hashchange", () => { if (token) show(); });

// A link from the terminal has the token behind the `#`, which no server gets to see.
const fragment = new URLSearchParams(location.hash.slice(1));
const given = fragment.get("token");
if (given) {
  history.replaceState(null, "", location.pathname + (fragment.has("show") ? "#" + fragment.get("show") : ""));
  open(given);
} else if (token) open(token);
else logIn("");
