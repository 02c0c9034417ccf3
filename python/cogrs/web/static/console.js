// The console: it shows the reports that the server sends, and asks for ends of trials. See docs/web.md.

import { Recording } from "./recording.js";

const byId = (id) => document.getElementById(id);
const part = (name) => document.querySelector(`[data-cogrs="${name}"]`);
const FINAL_CODES = [1003, 1008, 1009, 4000, 4001];
const KEY = "cogrs-operator";
const POINTS = 300; // five minutes
const LONG_WAIT = 10; // seconds after which a wait stands out
const SVG = "http://www.w3.org/2000/svg";
const WHY = {
  "default actions": "acted for actors that were late or gone",
  "extra actions": "came twice for a tick, or too late",
  "missed ticks": "were over before an actor came back",
  "wrong ticks": "an environment gave another tick than the next one",
  "not finite rewards": "were not numbers, or infinite",
};

let socket = null;
let delay = 250;

// -- the connection -----------------------------------------------------------------------------

function connect() {
  const url = new URL("console/ws", location.href.split("#")[0]);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const mine = new WebSocket(url);
  socket = mine;
  mine.onopen = () => {
    const token = decodeURIComponent(location.hash.slice(1)) || sessionStorage.getItem(KEY) || "";
    mine.send(JSON.stringify({ type: "join", token }));
    mine.token = token;
  };
  mine.binaryType = "arraybuffer";
  mine.onmessage = (event) => {
    delay = 250;
    if (typeof event.data !== "string") {
      recording.takePicture(event.data);
      return;
    }
    const message = JSON.parse(event.data);
    receivers[message.type]?.(message, mine);
  };
  mine.onclose = (event) => {
    if (socket !== mine) return;
    if (FINAL_CODES.includes(event.code)) {
      setState("ended", event.reason || "the connection was refused");
      document.body.dataset.alone = "true";
      return;
    }
    const reason = event.reason || "the connection was lost";
    setState("waiting", `${sentence(reason)} Trying again.`);
    setTimeout(connect, delay * (0.75 + Math.random() / 2));
    delay = Math.min(2 * delay, 8000);
  };
}

const receivers = {
  console(message, mine) {
    sessionStorage.setItem(KEY, mine.token);
    if (location.hash) history.replaceState(null, "", location.pathname + location.search);
    byId("title").textContent = `Console · ${message.title}`;
    document.title = `${message.title} · cogrs`;
    byId("stored-section").hidden = !message.store;
    if (message.store) list();
    recording.reconnected();
  },
  state(message) {
    setState(message.state, message.reason ?? "");
  },
  report(message) {
    showTrials(message);
    showList("dropped", message.dropped, WHY);
    showList("counts", message.counts);
    showEnded(message.ended);
    showReplays(message.replays);
    for (const [name, value] of Object.entries(message.charts)) chartOf(name, message.replays).add(value);
  },
  stored: showStored,
  timeline: (message) => recording.begin(message),
  step: (message) => recording.show(message),
  ack(message) {
    if (message.of === "show" && !message.ok) recording.refused();
    if (!message.ok) setText(part("reason"), sentence(message.reason ?? ""));
  },
};

function sentence(text) {
  return text && text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

function setState(name, reason) {
  setText(part("state"), name);
  part("state").dataset.state = name;
  setText(part("reason"), sentence(reason));
  document.body.toggleAttribute("data-stale", name !== "connected");
}

// What has not changed is left alone, so that focus and selection stay.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function made(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

// -- trials -------------------------------------------------------------------------------------

const LABELS = ["", "State", "Tick", "Ticks/s", "Waits for", "Since", ""];
const rows = new Map();

function rowOf(id) {
  const found = rows.get(id);
  if (found) return found;
  const row = made("tr");
  row.dataset.cogrs = "trial";
  row.dataset.trial = id;
  const kinds = ["id", "state", "number tick", "number rate", "awaited", "number since"];
  row.append(...kinds.map((kind) => made("td", kind)), made("td"));
  [...row.cells].forEach((cell, at) => (cell.dataset.label = LABELS[at]));
  row.cells[0].textContent = id;
  const button = made("button", "", "Terminate");
  button.type = "button";
  button.dataset.cogrs = "terminate";
  button.setAttribute("aria-label", `Terminate trial ${id}`);
  button.addEventListener("click", () => {
    button.disabled = true;
    setTimeout(() => (button.disabled = false), 5000); // it may have been refused
    send({ type: "terminate", trial: id });
  });
  row.lastElementChild.append(button);
  rows.set(id, row);
  byId("trials").tBodies[0].append(row);
  return row;
}

function showTrials(message) {
  const there = new Set(message.trials.map((trial) => trial.id));
  for (const [id, row] of rows) {
    if (there.has(id)) continue;
    row.remove();
    rows.delete(id);
  }
  for (const trial of message.trials) {
    const row = rowOf(trial.id);
    const awaited = Object.entries(trial.awaited).map(([name, n]) => (n > 1 ? `${name} ×${n}` : name));
    const waits = awaited.length > 0;
    setText(row.cells[1], trial.state);
    setText(row.cells[2], trial.tick < 0 ? "–" : String(trial.tick));
    setText(row.cells[3], trial.rate === null ? "–" : trial.rate.toFixed(1));
    setText(row.cells[4], awaited.join(", ") || "–");
    setText(row.cells[5], waits ? lasting(trial.waited) : "–");
    row.classList.toggle("long", waits && trial.waited >= LONG_WAIT);
  }
  const none = message.trials.length === 0;
  byId("no-trials").hidden = !none && message.unlisted === 0;
  const text = none ? "No trial runs." : `and ${message.unlisted} more trials`;
  setText(byId("no-trials"), text);
}

function lasting(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// -- stored trials ------------------------------------------------------------------------------

const recording = new Recording(send);
const storedRows = new Map();
let until = null; // of the list that was asked for; null for the newest

function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function list(before = null) {
  until = before;
  const message = { type: "list", people: byId("people").checked };
  if (before !== null) message.until = before;
  send(message);
}

function refresh() {
  if (until === null) list();
}

function showStored({ trials }) {
  const body = byId("stored").tBodies[0];
  for (const trial of trials) {
    const found = storedRows.get(trial.id);
    if (!found) storedRows.set(trial.id, storedRow(trial));
    else if (!found.contains(document.activeElement)) {
      storedRows.set(trial.id, storedRow(trial));
      found.replaceWith(storedRows.get(trial.id));
    }
  }
  const rows = [...storedRows.values()].sort((a, b) => b.dataset.started - a.dataset.started);
  // What is in its place is left alone, so that focus stays.
  rows.forEach((row, at) => body.rows[at] !== row && body.insertBefore(row, body.rows[at] ?? null));
  byId("no-stored").hidden = storedRows.size > 0;
  byId("older").hidden = trials.length < 50;
  byId("older").onclick = () => list(trials.at(-1).started);
}

function storedRow(trial) {
  const row = made("tr");
  row.dataset.cogrs = "stored";
  row.dataset.trial = trial.id;
  row.dataset.started = String(trial.started);
  const started = new Date(1000 * trial.started).toLocaleString("sv"); // 2026-01-31 08:00:00, by the local clock
  const returns = Object.entries(trial.returns).map(([name, value]) => `${name} ${shownNumber(value)}`);
  const marks = [trial.people ? "judged by people" : "", trial.partial ? "partial" : "", trial.reason];
  const texts = [trial.id, started, String(trial.ticks), returns.join(", "), marks.filter(Boolean).join(" · ")];
  const kinds = ["id", "", "number", "returns", "reason"];
  const labels = ["", "Started", "Ticks", "Returns", "End", ""];
  row.append(...texts.map((text, at) => made("td", kinds[at], text)), made("td"));
  [...row.cells].forEach((cell, at) => (cell.dataset.label = labels[at]));
  const button = made("button", "plain", "Replay");
  button.type = "button";
  button.setAttribute("aria-label", `Replay trial ${trial.id}`);
  button.onclick = () => recording.open(trial.id);
  row.lastElementChild.append(button);
  return row;
}

byId("people").onchange = () => {
  byId("stored").tBodies[0].replaceChildren();
  storedRows.clear();
  list();
};
byId("open").onsubmit = (event) => {
  event.preventDefault();
  recording.open(byId("open-id").value.trim());
};

// -- figures ------------------------------------------------------------------------------------

const shownNumber = (value) => {
  if (value === null || value === undefined) return "–";
  return Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 2 });
};

function showList(id, values, why = {}) {
  fill(byId(id), values, why);
  const none = byId(`no-${id}`);
  if (none) none.hidden = Object.keys(values).length > 0;
}

function fill(list, values, why = {}) {
  const names = Object.keys(values);
  if (list.dataset.names !== names.join("\n")) {
    list.dataset.names = names.join("\n");
    list.replaceChildren(
      ...names.flatMap((name) => {
        const term = made("dt", "", name);
        if (why[name]) term.append(made("small", "", why[name]));
        return [term, made("dd")];
      }),
    );
  }
  names.forEach((name, at) => setText(list.children[2 * at + 1], shownNumber(values[name])));
}

function showEnded(ended) {
  const list = byId("ended");
  const key = ended.map((each) => each.id).join("\n");
  byId("no-ended").hidden = ended.length > 0;
  if (list.dataset.ids === key) return;
  // A trial is in the store soon after its end.
  if (list.dataset.ids !== undefined && until === null && !byId("stored-section").hidden) setTimeout(refresh, 2000);
  list.dataset.ids = key;
  list.replaceChildren(
    ...ended.map((each) => {
      const item = made("li", each.failed ? "failed" : "");
      const reason = each.reason || "reason not known any more";
      item.append(made("b", "", each.failed ? `failed: ${reason}` : reason), made("span", "", each.id));
      return item;
    }),
  );
}

const replays = new Map();

function showReplays(given) {
  byId("replays-section").hidden = given.length === 0;
  for (const replay of given) {
    let card = replays.get(replay.name);
    if (!card) {
      card = made("div");
      const fold = made("details");
      fold.append(made("summary", "", "Charts"), made("div", "charts"));
      card.append(made("h3", "", replay.name), made("dl"), made("p", "fault"), fold);
      replays.set(replay.name, card);
      byId("replays").append(card);
    }
    fill(card.children[1], replay.figures);
    card.children[3].hidden = Object.keys(replay.figures).length === 0 && !card.querySelector("figure");
    setText(card.children[2], replay.fault);
    card.children[2].hidden = !replay.fault;
  }
}

// -- charts -------------------------------------------------------------------------------------

const charts = new Map();

// The charts of a replay server are folded up in its card: there are many.
function chartOf(name, given) {
  const found = charts.get(name);
  if (found) return found;
  const replay = given.find((each) => name.startsWith(`${each.name}: `) && name.slice(each.name.length + 2) in each.figures);
  const home = replay ? replays.get(replay.name).querySelector(".charts") : byId("charts");
  const figure = made("figure");
  figure.dataset.cogrs = "chart";
  figure.dataset.chart = name;
  const caption = made("figcaption", "", replay ? name.slice(replay.name.length + 2) : name);
  const latest = made("output");
  caption.append(latest);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 100 40");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const ground = document.createElementNS(SVG, "line");
  for (const [key, value] of Object.entries({ x1: 0, x2: 100, y1: 40, y2: 40 })) ground.setAttribute(key, value);
  const path = document.createElementNS(SVG, "path");
  svg.append(ground, path);
  const range = made("div", "range");
  range.append(made("span"), made("span"));
  figure.append(caption, svg, range);
  home.append(figure);
  const points = [];
  const chart = {
    add(value) {
      points.push(value);
      if (points.length > POINTS) points.shift();
      const known = points.filter((each) => each !== null);
      const top = Math.max(...known, 0) || 1;
      let pen = "M";
      let drawn = "";
      points.forEach((each, at) => {
        if (each === null) {
          pen = "M";
          return;
        }
        const x = points.length > 1 ? (100 * at) / (points.length - 1) : 100;
        drawn += `${pen}${x.toFixed(2)} ${(40 - (38 * each) / top).toFixed(2)}`;
        pen = "L";
      });
      path.setAttribute("d", drawn);
      setText(latest, shownNumber(value));
      svg.setAttribute("aria-label", `${name}: ${shownNumber(value)} now, at most ${shownNumber(top)}`);
      setText(range.children[0], `last ${lasting(points.length)}`.replace(".0", ""));
      setText(range.children[1], `scale to ${shownNumber(top)}`);
    },
  };
  charts.set(name, chart);
  return chart;
}

connect();
