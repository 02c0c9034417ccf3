// A stored trial in the console: its pictures, what each actor did, and its rewards on a time line.

const byId = (id) => document.getElementById(id);
const frame = document.querySelector('[data-cogrs="frame"]');
const SVG = "http://www.w3.org/2000/svg";
const TYPES = { 1: "image/png", 2: "image/jpeg" };
const HEIGHT = 44; // of a lane of rewards, in units of its drawing
const WHO = {
  agent: "agent",
  client: "client",
  policy: "policy",
  person: "person, in place of the policy",
  default: "default action: the actor was late or gone",
  none: "no action",
};

function made(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

function drawn(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const number = (value) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value));

// An observation, or an action, in words: `x: 1 2, y: 3`.
function inWords(parts) {
  const each = ([name, numbers]) => (name ? `${name}: ` : "") + numbers.map(number).join(" ");
  return Object.entries(parts).map(each).join(", ");
}

export class Recording {
  constructor(send) {
    this.send = send;
    this.trial = "";
    this.last = 0;
    this.tick = 0;
    this.wanted = null; // the tick that is to be shown next, while another one is awaited
    this.awaits = false;
    this.timer = 0;
    this.cursors = [];
    byId("play").onclick = () => this.play(!this.timer);
    byId("back").onclick = () => this.seek(this.tick - 1);
    byId("on").onclick = () => this.seek(this.tick + 1);
    byId("seek").oninput = (event) => this.seek(Number(event.target.value));
    byId("speed").onchange = () => this.timer && this.play(true);
    byId("close-recording").onclick = () => this.close();
  }

  open(trial) {
    this.close();
    this.trial = trial;
    this.send({ type: "open", trial });
  }

  // A new connection has no trial open.
  reconnected() {
    if (this.trial) this.send({ type: "open", trial: this.trial });
  }

  close() {
    this.play(false);
    this.trial = "";
    this.tick = 0;
    this.awaits = false;
    this.wanted = null;
    byId("recording").hidden = true;
  }

  begin(message) {
    if (message.trial !== this.trial) return;
    const again = !byId("recording").hidden;
    this.last = message.last;
    this.awaits = false;
    byId("recording").hidden = false;
    byId("recording-title").textContent = `Replay of ${message.trial}`;
    byId("seek").max = String(message.last);
    frame.hidden = message.pictures === 0;
    byId("lanes").replaceChildren();
    this.cursors = [];
    const senders = new Set();
    for (const actor of message.actors) {
      byId("lanes").append(this.lane(actor, message, senders));
    }
    if (message.unlisted) byId("lanes").append(made("p", "empty", `and ${message.unlisted} more actors`));
    this.explain([...senders], message.actors);
    this.seek(again ? Math.min(this.tick, this.last) : 0);
    if (!again) byId("recording").scrollIntoView({ block: "nearest" });
  }

  // -- the ticks --------------------------------------------------------------------------------

  // One request at a time: the latest that is asked for meanwhile comes next.
  seek(tick) {
    this.wanted = Math.max(0, Math.min(tick, this.last));
    if (!this.awaits) this.ask();
  }

  ask() {
    if (this.wanted === null || !this.trial) return;
    this.send({ type: "show", trial: this.trial, tick: this.wanted });
    this.awaits = true;
    this.wanted = null;
  }

  refused() {
    this.awaits = false;
    this.play(false);
  }

  play(on) {
    clearInterval(this.timer);
    this.timer = 0;
    if (on) {
      if (this.tick >= this.last) this.seek(0);
      const step = () => {
        if (this.awaits) return;
        if (this.tick >= this.last) this.play(false);
        else this.seek(this.tick + 1);
      };
      this.timer = setInterval(step, 1000 / Number(byId("speed").value));
    }
    byId("play").textContent = on ? "Pause" : "Play";
    byId("play").setAttribute("aria-pressed", String(on));
  }

  show(message) {
    if (message.trial !== this.trial) return;
    this.awaits = false;
    this.tick = message.tick;
    byId("tick").textContent = `Tick ${message.tick} of ${this.last}`;
    byId("seek").value = String(message.tick);
    for (const cursor of this.cursors) {
      const x = String((100 * (message.tick + 0.5)) / (this.last + 1));
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
    }
    frame.classList.toggle("missing", !message.picture);
    byId("actors").replaceChildren(...message.actors.map((actor) => this.describe(actor)));
    this.ask();
  }

  describe(actor) {
    const box = made("div", "actor");
    box.append(made("h3", "", actor.name));
    const list = made("dl");
    const add = (name, text, className = "") => {
      if (text) list.append(made("dt", "", name), made("dd", className, text));
    };
    add("sees", inWords(actor.seen));
    add("does", inWords(actor.action) || "–");
    add("by", WHO[actor.origin], `by ${actor.origin}`);
    add("policy", inWords(actor.policy));
    for (const reward of actor.rewards) {
      const weight = reward.confidence === 1 ? "" : `, confidence ${number(reward.confidence)}`;
      const late = reward.delivered > this.tick ? `, given at tick ${reward.delivered}` : "";
      add(`from ${reward.sender || "somebody"}`, `${number(reward.value)}${weight}${late}`);
    }
    add("ends", [actor.terminated && "terminated", actor.truncated && "truncated"].filter(Boolean).join(", "));
    box.append(list);
    return box;
  }

  async takePicture(buffer) {
    const view = new DataView(buffer);
    const tick = Number(view.getBigUint64(1));
    try {
      const bitmap = await createImageBitmap(new Blob([buffer.slice(9)], { type: TYPES[view.getUint8(0)] }));
      frame.width = bitmap.width;
      frame.height = bitmap.height;
      frame.getContext("2d").drawImage(bitmap, 0, 0);
      frame.classList.toggle("small", bitmap.width < 256);
      frame.dataset.tick = String(tick);
      frame.setAttribute("aria-label", `Picture of tick ${tick}`);
      bitmap.close();
    } catch {
      frame.classList.add("missing");
    }
  }

  // -- the time line ----------------------------------------------------------------------------

  lane(actor, { width, last }, senders) {
    const figure = made("figure");
    figure.dataset.actor = actor.name;
    const other = actor.class && actor.class !== actor.name;
    figure.append(made("figcaption", "", other ? `${actor.name} (${actor.class})` : actor.name));
    const svg = drawn("svg", { viewBox: `0 0 100 ${HEIGHT + 8}`, preserveAspectRatio: "none", role: "img" });
    const part = (100 * width) / (last + 1);
    const sums = Object.values(actor.rewards).flat().map(([, sum]) => Math.abs(sum));
    const top = sums.reduce((a, b) => Math.max(a, b), 0) || 1;
    const middle = HEIGHT / 2;
    svg.append(drawn("line", { x1: 0, x2: 100, y1: middle, y2: middle }));
    const names = Object.keys(actor.rewards).sort((a, b) => (b === "env") - (a === "env"));
    const others = names.filter((name) => name !== "env");
    names.forEach((sender) => {
      senders.add(sender);
      // Bars of the environment are behind those of people and agents, which are never too narrow to be seen.
      const wide = sender === "env" ? part : Math.max((0.7 * part) / others.length, 0.5);
      const shift = sender === "env" ? 0 : (part - wide * others.length) / 2 + wide * others.indexOf(sender);
      const bars = actor.rewards[sender].map(([bin, sum]) => {
        const left = bin * part + shift;
        const high = Math.max((Math.abs(sum) * (middle - 1)) / top, sum === 0 ? 0 : 0.8);
        return `M${left.toFixed(3)} ${middle}v${(sum > 0 ? -high : high).toFixed(2)}h${wide.toFixed(3)}V${middle}z`;
      });
      const path = drawn("path", { d: bars.join(""), class: `sender-${this.colour(sender, senders)}` });
      path.dataset.sender = sender;
      svg.append(path);
    });
    for (const [origin, parts] of Object.entries(actor.origins)) {
      const bars = parts.map(
        ([bin, count]) =>
          `M${(bin * part).toFixed(3)} ${HEIGHT + 8}v${(-7 * Math.min(count / width, 1)).toFixed(2)}h${part.toFixed(3)}V${HEIGHT + 8}z`,
      );
      const path = drawn("path", { d: bars.join(""), class: `origin ${origin}` });
      path.dataset.origin = origin;
      svg.append(path);
    }
    const cursor = drawn("line", { x1: 0, x2: 0, y1: 0, y2: HEIGHT + 8, class: "cursor" });
    svg.append(cursor);
    this.cursors.push(cursor);
    const totals = names.map((sender) => {
      const total = actor.rewards[sender].reduce((sum, [, value]) => sum + value, 0);
      return `${sender} ${number(total)}`;
    });
    const told = totals.length ? `rewards of ${actor.name}: ${totals.join(", ")}` : `${actor.name} got no rewards`;
    svg.setAttribute("aria-label", told);
    svg.onclick = (event) => {
      const box = svg.getBoundingClientRect();
      this.seek(Math.floor(((event.clientX - box.left) / box.width) * (last + 1)));
    };
    figure.append(svg, made("p", "empty", totals.length ? `Sum: ${totals.join(", ")}` : "No rewards"));
    return figure;
  }

  colour(sender, senders) {
    return sender === "env" ? "env" : String([...senders].filter((name) => name !== "env").indexOf(sender) % 4);
  }

  explain(senders, actors) {
    const entries = senders.map((sender) => [`sender-${this.colour(sender, senders)}`, `rewards from ${sender || "somebody"}`]);
    const origins = new Set(actors.flatMap((actor) => Object.keys(actor.origins)));
    for (const origin of origins) entries.push([`origin ${origin}`, `actions: ${WHO[origin]}`]);
    byId("legend").replaceChildren(
      ...entries.map(([className, text]) => {
        const entry = made("span");
        const sample = drawn("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
        sample.append(drawn("path", { d: "M0 0h10v10H0z", class: className }));
        entry.append(sample, text);
        return entry;
      }),
    );
  }
}
