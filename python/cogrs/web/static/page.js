// The page: it shows what the server sends, and sends what the person does. See docs/web.md.

const part = (name) => document.querySelector(`[data-cogrs="${name}"]`);
const byId = (id) => document.getElementById(id);
const FINAL_CODES = [1003, 1008, 1009, 4000, 4001, 4002, 4003];
const THUMBS = 24; // that are kept of ticks which follow each other fast
const MOST_THUMBS = 200;
const SPARSE = 120; // milliseconds between two that are older
const TAKEOVER_KEYS = ["ShiftLeft", "ShiftRight"];
const FEEDBACK_KEYS = { KeyG: 1, KeyB: -1 };
const UNDO_KEY = "KeyU";
const LONG_PRESS = 350;
const LONGEST_DELAY = 8000; // milliseconds between two attempts to connect

let hello = null;
let socket = null;
let trial = "";
let state = "waiting";
let delay = 250;
let openTick = -1;
let shownTick = -1;
let chosen = null; // the thumbnail that the next judgement is about
let holding = false; // whether the game stands still while the person looks back
let frozen = null; // the latest tick meanwhile, if only this page stands still
let left = false; // whether the person has left by this page
const shownAt = new Map(); // when each of the latest ticks came on the screen

// -- the connection -----------------------------------------------------------------------------

const KEY = "cogrs-session";

function connect(here = false) {
  const url = new URL("ws", location.href.split("#")[0]);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const mine = new WebSocket(url);
  socket = mine;
  mine.binaryType = "arraybuffer";
  mine.onopen = () => {
    const join = { type: "join", ready: hello?.ready ?? false, here };
    const token = decodeURIComponent(location.hash.slice(1));
    const session = sessionStorage.getItem(KEY);
    if (token) join.token = token;
    if (session) join.session = session;
    mine.send(JSON.stringify(join));
  };
  mine.onmessage = (event) => {
    delay = 250;
    if (typeof event.data === "string") receive(JSON.parse(event.data));
    else takePicture(event.data);
  };
  mine.onclose = (event) => {
    if (socket !== mine) return;
    if (FINAL_CODES.includes(event.code)) {
      if (event.code !== 4003) {
        setState("ended", event.reason || "the connection was refused");
        showAlone();
      }
      return;
    }
    setState("waiting", `${sentence(event.reason || "the connection was lost")} Trying again.`);
    setTimeout(() => connect(), Math.min(delay * (0.75 + Math.random() / 2), LONGEST_DELAY));
    delay = Math.min(2 * delay, LONGEST_DELAY);
  };
}

function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

// Show nothing but the reason.
function showAlone() {
  document.body.dataset.alone = "true";
  byId("stage").hidden = true;
  part("join").hidden = true;
}

function sentence(text) {
  return text && text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

const receivers = {
  hello(message) {
    hello = message;
    delete document.body.dataset.alone;
    holding = false;
    frozen = null;
    sessionStorage.setItem(KEY, message.session);
    if (location.hash) history.replaceState(null, "", location.pathname + location.search);
    byId("title").textContent = message.title;
    document.title = `${message.title} · cogrs`;
    byId("elsewhere").hidden = true;
    const form = part("join");
    form.hidden = message.ready;
    byId("how").textContent = explain(message);
    showHowKeys(message.controls);
    byId("stage").hidden = !message.ready;
    byId("consent-text").hidden = byId("consent-row").hidden = !message.consent;
    byId("consent-text").textContent = message.consent;
    form.consent.required = Boolean(message.consent);
    part("given").replaceChildren();
    sent = "null false"; // the server lets go of everything when a connection is lost
    if (message.ready) setUp();
    else if (message.role === "spectator") send({ type: "join", ready: true });
    else form.name.focus();
  },
  state(message) {
    if (message.trial !== undefined && message.trial !== trial) beginTrial(message.trial);
    if (message.state === "elsewhere") {
      byId("elsewhere").hidden = false;
      showAlone();
    }
    setState(message.state, message.reason ?? "");
    if (message.score !== undefined) setScore(message.score, true);
  },
  tick(message) {
    if (frozen) {
      frozen = message;
      return;
    }
    openTick = message.tick;
    if (message.tick === 0 && hello.mode === "hold" && hello.controls.kind && !hello.takeover) say(READY);
    else if (part("reason").textContent === READY) say("");
    setScore(message.score, message.deadline === null);
    showDeadline(message.deadline);
    if (!holding) choose(null);
    releaseTaps();
    const names = Object.keys(message.summary ?? {});
    byId("summary").hidden = names.length === 0;
    part("frame").hidden = names.length > 0;
    if (names.length) showSummary(message.tick, message.summary);
  },
  ack(message) {
    if (message.of === "feedback" && message.ok) noteGiven(message);
    else if (!message.ok) say(sentence(message.reason ?? ""));
  },
};

function receive(message) {
  receivers[message.type]?.(message);
}

const READY = "The game starts with your first press.";

function say(text) {
  if (part("reason").textContent !== text) part("reason").textContent = text;
}

function setState(name, reason) {
  const before = state;
  state = name;
  if (name === "ended" || name === "waiting") stopHolding();
  if (name === "paused") pausedAt = performance.now();
  else if (before === "paused") pausedFor += performance.now() - pausedAt;
  const pill = part("state");
  if (pill.textContent !== name) pill.textContent = name;
  pill.dataset.state = name;
  say(left && name === "ended" ? "You left. You can close this page." : sentence(reason));
  showPause();
  byId("stage").toggleAttribute("data-idle", name === "ended" || name === "waiting");
  part("leave").disabled = left && name === "ended";
  if (name !== "playing") showDeadline(null);
  if (before !== name) showStrip();
}

function showPause() {
  const still = state === "paused" || frozen !== null;
  const button = byId("pause");
  button.setAttribute("aria-pressed", String(still));
  button.textContent = still ? "Go on" : "Pause";
  button.disabled = state === "ended";
  button.hidden = !hello?.controls?.kind && !frozen;
}

// What a person should know before the first tick.
function explain({ role, takeover, mode, feedback, controls }) {
  if (role === "spectator") return "";
  if (role === "judge") return "Watch, and say what was good or bad.";
  const judge = feedback ? " Say what was good or bad." : "";
  const touch = matchMedia("(hover: none) and (pointer: coarse)").matches;
  const hold = touch ? "Take over" : "Shift";
  if (takeover) return `A policy plays. Hold ${hold} to act in its place.${judge}`;
  const slides = controls.kind === "sliders";
  const keys = touch ? "" : "the keys, or ";
  const use = slides ? "Move the sliders" : `Use ${keys}the buttons below the picture`;
  if (mode === "press") return `${use}. The game waits for each press.`;
  if (mode === "queue") return `${use}. The game waits for each press; early ones count too.`;
  return `${slides ? use : use.replace("Use", "Hold")} to act. The game starts with your first press, or after a few seconds.`;
}

// The keys of few actions; many are at their buttons only.
function showHowKeys(controls) {
  const actions = controls.actions ?? [];
  const items = actions.filter(({ keys }) => keys.length).map((action) => {
    const item = document.createElement("li");
    item.append(action.name, keyHint(action.keys));
    return item;
  });
  byId("how-keys").replaceChildren(...items);
  byId("how-keys").hidden = items.length === 0 || items.length > 6;
}

let scoreTimer = 0;
let score = 0;

// A reader of the screen is not to be told of sixty scores a second.
function setScore(value, now) {
  score = value;
  const write = () => {
    scoreTimer = 0;
    part("score").textContent = String(Math.round(score * 100) / 100);
  };
  if (now) {
    clearTimeout(scoreTimer);
    write();
  } else if (!scoreTimer) scoreTimer = setTimeout(write, 200);
}

function beginTrial(id) {
  trial = id;
  openTick = shownTick = -1;
  for (const button of taps.keys()) taps.set(button, -Infinity); // taps are not for the next trial
  releaseTaps();
  shownAt.clear();
  thumbs.length = 0;
  holding = false;
  frozen = null;
  showStrip();
  part("earlier").scrollLeft = 0;
  part("frame").removeAttribute("data-tick");
  choose(null);
  byId("past").hidden = part("given").childElementCount === 0;
}

// -- pictures -----------------------------------------------------------------------------------

const TYPES = { 1: "image/png", 2: "image/jpeg", 3: "image/webp" };
let waitingPicture = null;
let decoding = false;

async function takePicture(buffer) {
  waitingPicture = buffer; // the latest wins
  if (decoding || frozen) return;
  decoding = true;
  while (waitingPicture && !frozen) {
    const view = new DataView(waitingPicture);
    const type = TYPES[view.getUint8(0)];
    const tick = Number(view.getBigUint64(1));
    const of = trial;
    const blob = new Blob([waitingPicture.slice(9)], { type });
    waitingPicture = null;
    if (!type) continue;
    try {
      const bitmap = await createImageBitmap(blob);
      if (of === trial) draw(bitmap, tick);
      bitmap.close();
    } catch {
      say("A picture could not be shown.");
    }
  }
  decoding = false;
}

function draw(bitmap, tick) {
  const canvas = part("frame");
  if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
    canvas.width = bitmap.width;
    canvas.height = bitmap.height;
    canvas.classList.toggle("small", bitmap.width < 256);
  }
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  show(tick, (thumb) => {
    const small = document.createElement("canvas");
    small.width = 168; // twice the width on the screen, for those with small dots
    small.height = Math.max(1, Math.round((168 * bitmap.height) / bitmap.width));
    small.getContext("2d").drawImage(bitmap, 0, 0, small.width, small.height);
    thumb.append(small);
  });
}

function showSummary(tick, summary) {
  const rows = Object.entries(summary).map(([name, numbers]) => {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    const cell = document.createElement("td");
    head.scope = "row";
    head.textContent = name || "observation";
    cell.textContent = numbers.join("   ");
    row.append(head, cell);
    return row;
  });
  byId("summary").tBodies[0].replaceChildren(...rows);
  show(tick, () => {});
}

function show(tick, fill) {
  shownTick = tick;
  part("frame").dataset.tick = String(tick);
  part("frame").setAttribute("aria-label", `Picture of tick ${tick}`);
  shownAt.set(tick, performance.now());
  if (shownAt.size > 1000) shownAt.delete(shownAt.keys().next().value);
  if (!hello?.feedback || tick < 1) return;
  if (thumbs.some((each) => each.tick === tick)) return;
  const thumb = document.createElement("button");
  thumb.type = "button";
  thumb.dataset.tick = String(tick);
  thumb.setAttribute("aria-pressed", "false");
  thumb.setAttribute("aria-label", `Tick ${tick}`);
  fill(thumb);
  const age = document.createElement("small");
  thumb.append(document.createTextNode(String(tick)), age);
  thumb.onclick = () => {
    hold();
    choose(chosen === tick ? null : tick);
  };
  thumbs.unshift({ tick, thumb, age, at: performance.now() - pausedFor });
  const older = thumbs[THUMBS + 1];
  if (older && thumbs[THUMBS].at - older.at < SPARSE) thumbs.splice(THUMBS, 1);
  thumbs.length = Math.min(thumbs.length, MOST_THUMBS);
  if (!holding) addToStrip(thumb);
  byId("past").hidden = false;
}

// -- looking back -------------------------------------------------------------------------------

const thumbs = []; // the newest first
let pausedAt = 0;
let pausedFor = 0; // milliseconds that the ages of thumbnails leave out

// Whether ticks follow by themselves, so that what is in the strip would be gone too soon.
function runs() {
  return state === "playing" && (hello.mode === "hold" || hello.takeover || !hello.controls.kind);
}

function addToStrip(thumb) {
  const strip = part("earlier");
  strip.prepend(thumb);
  const most = runs() ? THUMBS : MOST_THUMBS;
  while (strip.childElementCount > most) strip.lastElementChild.remove();
}

// While ticks follow by themselves the strip has the newest thumbnails, else all of them.
function showStrip() {
  const running = hello ? runs() && !holding : false;
  const now = thumbs[0]?.at ?? 0;
  for (const { at, age } of thumbs) {
    const seconds = (now - at) / 1000;
    age.textContent = running || seconds < 0.05 ? "" : ` · ${seconds.toFixed(1)} s ago`;
  }
  const strip = part("earlier");
  const wanted = thumbs.slice(0, running ? THUMBS : MOST_THUMBS).map(({ thumb }) => thumb);
  // Those that are there already stay in place, as one of them may be under a finger.
  for (const each of [...strip.children]) if (!wanted.includes(each)) each.remove();
  wanted.forEach((each, k) => {
    if (strip.children[k] !== each) strip.insertBefore(each, strip.children[k] ?? null);
  });
  showChoice();
}

function showChoice() {
  byId("stage").toggleAttribute("data-chosen", chosen !== null);
  const still = holding ? "The game waits. Choose a picture to judge it" : "Earlier pictures: choose one to judge it";
  const text = chosen === null ? still : `Tick ${chosen} is chosen: was it good or bad?`;
  if (byId("earlier-title").textContent !== text) byId("earlier-title").textContent = text;
}

// Let the game stand still, or only this page if the person may not pause the game.
function hold() {
  if (holding || !runs()) return;
  holding = true;
  if (hello.controls.kind) send({ type: "pause", on: true });
  else frozen = { type: "none" };
  showPause();
  showStrip();
}

function stopHolding() {
  const tick = frozen;
  frozen = null;
  if (tick) receive(tick);
  if (tick && waitingPicture) takePicture(waitingPicture);
  holding = false;
}

function goOn() {
  if (hello.controls.kind) send({ type: "pause", on: false });
  stopHolding();
  showPause();
  showStrip();
  part("earlier").scrollLeft = 0;
}

part("earlier").onpointerdown = hold;

function showDeadline(seconds) {
  const bar = part("deadline");
  const fill = bar.firstElementChild;
  for (const each of fill.getAnimations()) each.cancel();
  if (seconds === null || seconds === undefined) {
    bar.removeAttribute("aria-valuenow");
    return;
  }
  bar.setAttribute("aria-valuenow", "100");
  const steps = matchMedia("(prefers-reduced-motion: reduce)").matches ? "steps(4)" : "linear";
  fill.animate([{ transform: "scaleX(1)" }, { transform: "scaleX(0)" }], {
    duration: 1000 * seconds,
    easing: steps,
  });
}

// -- controls -----------------------------------------------------------------------------------

const down = new Map(); // keys that are down, in the order in which they were pressed
const held = new Map(); // buttons that are held, with their values
const taps = new Map(); // buttons that were let go too soon, with the tick in which they were pressed
let bindings = []; // [codes, value], the longest first
let sliders = null; // values of a vector, once one was moved
let takeover = false;
let latched = false; // whether takeover stays without a key
let sent = "null false";
let remapping = null;

function setUp() {
  const { controls } = hello;
  const box = byId("actions");
  box.replaceChildren();
  box.dataset.count = (controls.actions ?? []).every(({ name }) => name.length < 8) ? (controls.actions?.length ?? 0) : 0;
  bindings = [];
  if (controls.kind === "buttons") {
    const saved = JSON.parse(localStorage.getItem(`cogrs-keys-${hello.title}`) ?? "{}");
    for (const action of controls.actions) {
      const keys = saved[action.value] ?? action.keys;
      for (const codes of keys) bindings.push([codes, action.value]);
      box.append(actionButton(action, keys));
    }
    bindings.sort((a, b) => b[0].length - a[0].length);
    showBindings(controls.actions);
  } else if (controls.kind === "sliders") {
    controls.low.forEach((low, k) => box.append(slider(controls, k)));
    if (controls.low.length === 1) {
      bindings = [
        [["ArrowLeft"], controls.low],
        [["ArrowRight"], controls.high],
      ];
    }
  }
  byId("keys").hidden = controls.kind !== "buttons";
  part("takeover").hidden = !hello.takeover;
  byId("feedback").hidden = !hello.feedback;
  showPause();
  part("leave").hidden = hello.role === "spectator";
  byId("past").hidden = true;
}

function keyNames(keys) {
  const plain = (code) => code.replace(/^(Key|Digit)/, "").replace(/^Arrow/, "");
  return keys.map((codes) => codes.map(plain).join("+")).join(", ");
}

function keyHint(keys) {
  const hint = document.createElement("kbd");
  hint.textContent = keyNames(keys);
  return hint;
}

function actionButton(action, keys) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.cogrs = `action-${action.value}`;
  button.append(action.name);
  if (keys.length) button.append(keyHint(keys));
  let pointed = false;
  let pressedAt = -1;
  const press = () => {
    pressedAt = openTick;
    held.set(button, action.value);
    taps.delete(button);
    button.classList.add("down");
    update(action.value);
  };
  const release = () => {
    if (!held.has(button)) return;
    taps.set(button, pressedAt);
    releaseTaps();
  };
  button.onpointerdown = (event) => {
    pointed = true;
    button.setPointerCapture(event.pointerId);
    press();
  };
  button.onpointerup = button.onpointercancel = button.onlostpointercapture = release;
  button.onkeydown = (event) => {
    if (event.code !== "Enter" && event.code !== "Space") return;
    event.preventDefault();
    event.stopPropagation();
    if (!event.repeat) press();
  };
  button.onkeyup = (event) => {
    if (event.code === "Enter" || event.code === "Space") release();
  };
  button.onclick = () => {
    // Only assistive programs click without a pointer or a key.
    if (!pointed) {
      press();
      release();
    }
    pointed = false;
  };
  button.oncontextmenu = (event) => event.preventDefault();
  return button;
}

function slider(controls, k) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  const output = document.createElement("output");
  input.type = "range";
  input.min = controls.low[k];
  input.max = controls.high[k];
  input.step = controls.step ?? (controls.high[k] - controls.low[k]) / 100;
  input.value = controls.default[k];
  input.dataset.cogrs = `action-${k}`;
  input.setAttribute("aria-label", `Action ${k}`);
  output.textContent = Number(input.value).toFixed(2);
  input.oninput = () => {
    sliders ??= [...controls.default];
    sliders[k] = Number(input.value);
    output.textContent = Number(input.value).toFixed(2);
    update(sliders);
  };
  label.append(controls.low.length === 1 ? "Action" : `${k}`, input, output);
  return label;
}

// A tap on a button counts for a tick, however short it was. The next tick may be on its way already
// when the server hears of the tap, so that the one after it is waited for.
function releaseTaps() {
  for (const [button, tick] of taps) {
    if (hello.mode === "hold" && state === "playing" && openTick <= tick + 1) continue;
    held.delete(button);
    taps.delete(button);
    button.classList.remove("down");
  }
  update();
}

function releaseAll() {
  down.clear();
  for (const button of held.keys()) button.classList.remove("down");
  held.clear();
  taps.clear();
  if (!latched) setTakeover(false);
  update();
}

function current() {
  const buttons = [...held.values()];
  if (buttons.length) return buttons.at(-1);
  const fitting = bindings.filter(([codes]) => codes.every((code) => down.has(code)));
  if (fitting.length) {
    const longest = fitting.filter(([codes]) => codes.length === fitting[0][0].length);
    const since = ([codes]) => Math.max(...codes.map((code) => down.get(code)));
    return longest.reduce((a, b) => (since(b) > since(a) ? b : a))[1];
  }
  return sliders ?? null;
}

// Tell the server what the controls stand for, if that has changed; `pressed` is a new press.
function update(pressed = null) {
  if (!hello?.ready || hello.role === "spectator" || !hello.controls.kind) return;
  const value = current();
  const keys = [...down.keys()];
  if (value !== null && hello.takeover && !takeover && state === "playing") say(POLICY_PLAYS);
  if (hello.mode === "hold") {
    const text = `${JSON.stringify(value)} ${takeover}`;
    if (text === sent) return;
    sent = text;
    send({ type: "action", value, keys, takeover });
  } else if (pressed !== null) {
    const message = { type: "action", value: value ?? pressed, keys, takeover };
    if (hello.mode === "press" && openTick >= 0) message.tick = openTick;
    send(message);
  }
}

const POLICY_PLAYS = "The policy plays. Take over to act in its place.";

function setTakeover(on) {
  takeover = on && hello.takeover;
  if (takeover && part("reason").textContent === POLICY_PLAYS) say("");
  part("takeover").setAttribute("aria-pressed", String(takeover));
  update();
}

function isTyping(target) {
  return target.matches?.("input[type=text], input[type=checkbox], textarea");
}

addEventListener("keydown", (event) => {
  if (!hello?.ready || isTyping(event.target) || event.ctrlKey || event.metaKey) return;
  const { code } = event;
  if (remapping) {
    event.preventDefault();
    if (code !== "Tab" && code !== "Escape") bind(remapping, code);
    remapping = null;
    setUp();
    return;
  }
  const bound = bindings.some(([codes]) => codes.includes(code));
  const slides = event.target.matches?.("input[type=range]");
  if (bound && !slides) {
    event.preventDefault();
    if (event.repeat || down.has(code)) return;
    down.set(code, performance.now());
    update(current());
  } else if (event.repeat) {
    return;
  } else if (hello.takeover && TAKEOVER_KEYS.includes(code)) setTakeover(true);
  else if (hello.feedback && code in FEEDBACK_KEYS) judge(FEEDBACK_KEYS[code]);
  else if (hello.feedback && code === UNDO_KEY) undo();
});

addEventListener("keyup", (event) => {
  down.delete(event.code);
  if (TAKEOVER_KEYS.includes(event.code) && !latched) setTakeover(false);
  update();
});

addEventListener("blur", releaseAll);
document.addEventListener("visibilitychange", () => document.hidden && releaseAll());

let takeoverDown = 0;
part("takeover").onpointerdown = (event) => {
  event.target.setPointerCapture(event.pointerId); // its end is heard of wherever it comes
  takeoverDown = performance.now();
  setTakeover(true);
};
part("takeover").onpointerup = part("takeover").onpointercancel = () => {
  // A short press switches, a long one lasts as long as it lasts.
  latched = performance.now() - takeoverDown < LONG_PRESS ? !latched : false;
  setTakeover(latched);
};
part("takeover").onclick = (event) => {
  if (event.detail !== 0) return;
  latched = !latched;
  setTakeover(latched);
};

function showBindings(actions) {
  const rows = actions.slice(0, 40).map((action) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = `${action.name}: ${keyNames(keysOf(action.value)) || "no key"}`;
    button.setAttribute("aria-label", `Choose another key for ${action.name}`);
    button.onclick = () => {
      remapping = action.value;
      button.textContent = `${action.name}: press a key`;
    };
    return button;
  });
  byId("bindings").replaceChildren(...rows);
}

function keysOf(value) {
  return bindings.filter(([, of]) => of === value).map(([codes]) => codes);
}

function bind(value, code) {
  const keys = {};
  for (const { value: each } of hello.controls.actions) {
    keys[each] = keysOf(each).filter((codes) => codes.join() !== code);
  }
  keys[value] = [[code]];
  localStorage.setItem(`cogrs-keys-${hello.title}`, JSON.stringify(keys));
}

// Sticks of a gamepad move the sliders.
function readGamepad() {
  const pad = [...navigator.getGamepads()].find(Boolean);
  if (!pad || hello?.controls.kind !== "sliders") return;
  const { low, high } = hello.controls;
  const axes = low.map((_, k) => pad.axes[k] ?? 0);
  if (axes.some((axis) => Math.abs(axis) > 0.15)) {
    sliders = axes.map((axis, k) => low[k] + ((axis + 1) / 2) * (high[k] - low[k]));
    update(sliders);
  }
  requestAnimationFrame(readGamepad);
}
addEventListener("gamepadconnected", readGamepad);

// -- feedback -----------------------------------------------------------------------------------

function choose(tick) {
  if (chosen === tick) return;
  chosen = tick;
  for (const thumb of part("earlier").children) {
    thumb.setAttribute("aria-pressed", String(Number(thumb.dataset.tick) === tick));
  }
  showChoice();
}

function judge(value, tick = chosen ?? shownTick, now = performance.now()) {
  if (!hello?.feedback || tick < 0) return;
  const message = { type: "feedback", value, trial };
  const spread = chosen === null && hello.credit ? credited(now) : [];
  if (spread.length) message.ticks = spread;
  else message.tick = tick;
  message.seen = Math.max(0, (now - (shownAt.get(tick) ?? now)) / 1000);
  send(message);
  choose(null);
  if (holding) goOn();
}

// The ticks that were on the screen between two times before a press.
function credited(now) {
  const [early, late] = hello.credit;
  const times = [...shownAt.entries()];
  return times
    .filter(([tick, from], k) => {
      const until = times[k + 1]?.[1] ?? now;
      return tick > 0 && until >= now - 1000 * early && from <= now - 1000 * late;
    })
    .map(([tick]) => tick);
}

function undo() {
  send({ type: "feedback", undo: true });
}

function noteGiven(message) {
  const list = part("given");
  let entry = list.querySelector(`[data-id="${message.id}"]`);
  if (!entry) {
    entry = document.createElement("li");
    entry.dataset.id = String(message.id);
    list.prepend(entry);
  }
  entry.dataset.tick = String(message.tick);
  entry.dataset.value = String(message.value);
  const sign = message.value > 0 ? "+" : "";
  const note = message.stored === false ? " (not stored)" : "";
  const undone = message.undone ? " (taken back)" : "";
  entry.textContent = `${sign}${message.value} at tick ${message.tick}${note}${undone}`;
  if (message.undone) entry.dataset.undone = "true";
  while (list.childElementCount > 100) list.lastElementChild.remove();
  byId("past").hidden = false;
}

part("good").onclick = () => judge(1);
part("bad").onclick = () => judge(-1);
part("undo").onclick = undo;

// By a pointer the value counts when it is let go; by keys, which move it in steps, once it rests.
const REST = 700;
let byKeys = null; // tick and time of the first key
let restTimer = 0;

function giveValue() {
  clearTimeout(restTimer);
  const slider = part("value");
  if (byKeys) judge(Number(slider.value), ...byKeys);
  else judge(Number(slider.value));
  byKeys = null;
  slider.value = 0;
  showValue();
}

function showValue() {
  const value = Number(part("value").value);
  byId("value-label").textContent = value ? `How good: ${value > 0 ? "+" : ""}${value}` : "How good, −1 to 1";
}

part("value").oninput = showValue;
part("value").onpointerdown = () => (byKeys = null);
part("value").onkeydown = (event) => {
  if (event.code === "Enter" && byKeys) giveValue();
  else if (event.code !== "Tab") byKeys ??= [chosen ?? shownTick, performance.now()];
};
part("value").onchange = () => {
  clearTimeout(restTimer);
  if (byKeys) restTimer = setTimeout(giveValue, REST);
  else giveValue();
};

// -- the rest -----------------------------------------------------------------------------------

part("join").onsubmit = (event) => {
  event.preventDefault();
  const form = event.target;
  send({ type: "join", name: form.name.value, consent: form.consent.checked, ready: true });
};
part("here").onclick = () => {
  connect(true);
};
part("leave").onclick = () => {
  left = true;
  send({ type: "leave" });
  if (state === "ended") setState(state, "");
};
byId("pause").onclick = () => {
  if (holding) goOn();
  else send({ type: "pause", on: state !== "paused" });
};

if (location.hash || sessionStorage.getItem(KEY)) connect();
else {
  setState("ended", "this page needs a link that was made for you: ask for one");
  showAlone();
}
