"use strict";
// What can be chosen: one problem, and which agents are shown. Everything drawn comes from the page's own data.
const data = JSON.parse(document.getElementById("data").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const narrow = window.matchMedia("(max-width: 760px)");
const hidden = new Set();
const picker = document.getElementById("problem");
const runPicker = document.getElementById("run");
let isPictureSeen = false;

const LIGHT = ["#2f6cb5", "#c8590f", "#2a8a57", "#8d4cb8", "#b8325a", "#0c8390", "#8a6a12", "#5d6673"];
const DARK = ["#6fa8ec", "#f0945a", "#5cc08d", "#bf8ae6", "#ef7d9d", "#4fc3cf", "#d4b04c", "#a3acb9"];
const DASHES = ["solid", "dash", "dot", "dashdot"];

const rank = (agent) => data.agents.indexOf(agent);
const colour = (agent) => (dark.matches ? DARK : LIGHT)[rank(agent) % LIGHT.length];
const dash = (agent) => DASHES[Math.floor(rank(agent) / LIGHT.length) % DASHES.length];
const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faded = (hex) => hex + "2e";

function layout(x, y, more) {
  const axis = { gridcolor: variable("--line"), zeroline: false, automargin: true };
  return Object.assign({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    font: { color: variable("--ink"), family: getComputedStyle(document.body).fontFamily, size: 12 },
    margin: { l: 52, r: 12, t: 8, b: 40 }, hoverlabel: { namelength: -1 },
    xaxis: { ...axis, ...x }, yaxis: { ...axis, ...y },
  }, more);
}

function draw(id, traces, shape) {
  const options = { displaylogo: false, responsive: true, displayModeBar: narrow.matches ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d"] };
  Plotly.react(id, traces, shape, options);
}

// Curves arrive as [problem, agent, figure, x, y, low, high], a row for each point.
function bands(figure, problem) {
  const points = new Map();
  for (const row of data.curves) {
    if (row[0] !== problem || row[2] !== figure || hidden.has(row[1])) continue;
    if (!points.has(row[1])) points.set(row[1], []);
    points.get(row[1]).push(row);
  }
  const traces = [];
  for (const [agent, rows] of points) {
    const x = rows.map((row) => row[3]);
    const line = { color: colour(agent), dash: dash(agent), width: 2, shape: "hv" };
    if (rows[0][5] !== null) {
      const edge = { mode: "lines", line: { width: 0, shape: "hv" }, hoverinfo: "skip", x };
      traces.push({ ...edge, y: rows.map((row) => row[5]) });
      traces.push({ ...edge, y: rows.map((row) => row[6]), fill: "tonexty", fillcolor: faded(colour(agent)) });
    }
    traces.push({ name: agent, x, y: rows.map((row) => row[4]), mode: rows.length > 1 ? "lines" : "markers", line,
      marker: { color: colour(agent), size: 9, symbol: "diamond" } });
  }
  return traces;
}

function levels(problem, isVertical) {
  const run = data.runs.find((other) => other.problem === problem);
  if (!run) return [];
  return [[run.data_parallel_ms, "dash"], [run.lower_bound_ms, "dot"]].map(([at, style]) => ({
    type: "line", layer: "below", line: { color: variable("--grey"), width: 1.5, dash: style },
    ...(isVertical ? { x0: at, x1: at, y0: 0, y1: 1, yref: "paper" } : { y0: at, y1: at, x0: 0, x1: 1, xref: "paper" }),
  }));
}

function drawCurves(problem) {
  const names = { simulations: "simulations", seconds: "seconds of search" };
  for (const figure of Object.keys(names)) {
    const place = document.getElementById(figure);
    const traces = bands(figure, problem);
    const shapes = levels(problem, false);
    draw(figure, traces, layout({ title: { text: names[figure] }, type: "log", dtick: 1, exponentformat: "SI" },
      { title: { text: "iteration, ms" } }, { shapes }));
    place.setAttribute("aria-label", "best so far against " + names[figure]);
  }
}

function drawStrip(problem) {
  const chosen = data.runs.filter((run) => run.problem === problem && !hidden.has(run.agent));
  const rows = [...document.querySelectorAll("#agents tbody tr")].filter((row) => row.dataset.problem === problem);
  const order = rows.map((row) => row.dataset.agent).filter((agent) => chosen.some((run) => run.agent === agent));
  const agents = order.reverse(); // drawn from below
  const traces = agents.map((agent) => {
    const runs = chosen.filter((run) => run.agent === agent);
    return { name: agent, x: runs.map((run) => run.best_ms), y: runs.map(() => agent), mode: "markers",
      text: runs.map((run) => "seed " + run.seed + (run.fits_memory ? "" : ", exceeds the memory")),
      marker: { color: colour(agent), size: 10, opacity: 0.75,
        symbol: runs.map((run) => (run.fits_memory ? "circle" : "x")) } };
  });
  document.getElementById("strip").style.height = 102 + 30 * agents.length + "px";
  const marks = levels(problem, true).map((shape, number) => ({ x: shape.x0, y: 1, yref: "paper", yanchor: "bottom",
    yshift: [12, 0][number], showarrow: false, text: ["data parallelism", "lower bound"][number], font: { color: variable("--grey") } }));
  draw("strip", traces, layout({ title: { text: "best iteration time found, ms" } }, { type: "category" },
    { shapes: levels(problem, true), annotations: marks, margin: { l: 52, r: 30, t: 36, b: 40 } }));
}

// Pictures are kept as compressed SVG, and drawn when one comes into view.
async function unpacked(text) {
  if (!text) return "<p>The run folder has no picture of it.</p>";
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

async function drawPicture() {
  const chosen = runPicker.selectedOptions[0]?.picture;
  if (!chosen || !isPictureSeen) return;
  for (const name of ["strategy", "timeline"]) {
    const svg = await unpacked(chosen.dataset[name]);
    // Another may have been chosen meanwhile.
    if (chosen === runPicker.selectedOptions[0]?.picture) document.getElementById(name).innerHTML = svg;
  }
}

function listPictures(problem) {
  const before = runPicker.selectedOptions[0]?.picture;
  const fitting = [...document.querySelectorAll("#pictures li")].filter(
    (item) => item.dataset.problem === problem && !hidden.has(item.dataset.agent));
  runPicker.replaceChildren(...fitting.map((item) => {
    const option = new Option(item.dataset.said, item.dataset.said, false, item === before);
    option.picture = item;
    return option;
  }));
  document.getElementById("pictures").hidden = fitting.length === 0;
  if (fitting.length && runPicker.selectedOptions[0].picture !== before) drawPicture();
}

function show() {
  const problem = picker.value;
  const isOne = data.runs.some((run) => run.problem === problem);
  for (const id of ["simulations", "strip"]) document.getElementById(id).closest("section").hidden = !isOne;
  for (const row of document.querySelectorAll("#agents tbody tr, #runs tbody tr")) {
    row.hidden = (row.dataset.problem !== problem && (isOne || row.closest("#agents") !== null))
      || hidden.has(row.dataset.agent);
    row.querySelector(".swatch").style.background = colour(row.dataset.agent);
  }
  for (const table of document.querySelectorAll(".matrix")) table.hidden = table.dataset.problem !== problem;
  for (const part of document.querySelectorAll(".matrix tr[data-agent], .matrix [data-agent]")) {
    part.hidden = hidden.has(part.dataset.agent);
  }
  for (const chip of document.querySelectorAll("#chips button")) {
    chip.setAttribute("aria-pressed", String(!hidden.has(chip.dataset.agent)));
    chip.querySelector(".swatch").style.background = colour(chip.dataset.agent);
  }
  listPictures(problem);
  if (isOne) {
    drawCurves(problem);
    drawStrip(problem);
  }
  draw("profile", bands("profile", problem),
    layout({ title: { text: "speed-up over data parallelism" } }, { range: [-0.02, 1.02], tickformat: ".0%" }));
}

function sortBy(button) {
  const head = button.closest("th");
  const table = button.closest("table");
  const isUp = head.getAttribute("aria-sort") !== "ascending";
  for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  const key = (row) => {
    const cell = row.cells[head.cellIndex];
    const number = cell.querySelector("data");
    if (!number) return cell.textContent;
    return Number.isNaN(Number(number.value)) ? number.value : Number(number.value);
  };
  const compared = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => (isUp ? 1 : -1) * compared(key(a), key(b)));
  body.append(...rows);
}

for (const agent of data.agents) {
  const chip = document.createElement("button");
  chip.type = "button";
  chip.dataset.agent = agent;
  chip.innerHTML = '<i class="swatch"></i>';
  chip.append(agent);
  chip.addEventListener("click", () => {
    if (!hidden.delete(agent)) hidden.add(agent);
    show();
  });
  document.getElementById("chips").append(chip);
}
for (const button of document.querySelectorAll("thead button")) button.addEventListener("click", () => sortBy(button));
picker.addEventListener("change", show);
runPicker.addEventListener("change", drawPicture);
new IntersectionObserver((entries, observer) => {
  if (!entries.some((entry) => entry.isIntersecting)) return;
  observer.disconnect();
  isPictureSeen = true;
  drawPicture();
}, { rootMargin: "400px" }).observe(document.getElementById("pictures"));
dark.addEventListener("change", show);
narrow.addEventListener("change", show);
show();
