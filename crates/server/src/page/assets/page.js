// Keeps the page up to date. The server makes all of its HTML; this file puts the parts that have
// changed in place, and asks for nothing but the server's events.
"use strict";

const root = document.documentElement;
root.classList.add("with-js");

// The theme: the system's, unless one was chosen here. Set before anything is drawn.
const dark = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
try {
  chosen = localStorage.getItem("theme");
} catch {
  // Without storage the choice lasts as long as the page.
}

function showTheme() {
  const isDark = chosen ? chosen === "dark" : dark.matches;
  root.dataset.theme = isDark ? "dark" : "light";
  const button = document.getElementById("theme");
  if (button) {
    button.textContent = isDark ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark ? "Use light colours" : "Use dark colours");
  }
}

showTheme();
dark.addEventListener("change", showTheme);

// Makes `node` equal to `fresh`, and leaves alone what is equal already: the focus, a selection and
// the place of a scrolled box stay.
function become(node, fresh) {
  if (node.nodeType !== fresh.nodeType || node.nodeName !== fresh.nodeName) {
    node.replaceWith(fresh);
    return;
  }
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== fresh.nodeValue) node.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...node.attributes]) {
    if (!fresh.hasAttribute(name)) node.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  const [old, wanted] = [[...node.childNodes], [...fresh.childNodes]];
  wanted.forEach((child, at) => (at < old.length ? become(old[at], child) : node.append(child)));
  old.slice(wanted.length).forEach((child) => child.remove());
}

function setPart(name, html) {
  const place = document.querySelector(`[data-part="${name}"]`);
  if (!place) return;
  const fresh = place.cloneNode(false);
  fresh.innerHTML = html;
  become(place, fresh);
}

// What a screen reader is told: a new stage at once, progress once a minute.
let saidAt = 0;
let saidStage = "";

function say(stage, text) {
  if (stage === saidStage && Date.now() - saidAt < 60_000) return;
  [saidAt, saidStage] = [Date.now(), stage];
  document.getElementById("said").textContent = text;
}

function show(update) {
  const main = document.getElementById("main");
  if (update.title) document.title = update.title;
  if (update.stage) main.dataset.stage = update.stage;
  if (update.said) say(main.dataset.stage, update.said);
  for (const [name, html] of Object.entries(update.parts ?? {})) setPart(name, html);
}

// The connection. The browser opens it again when it breaks, but not after an answer such as 503.
const SILENCE_MS = 15_000;
const WAIT_MS_MAX = 30_000;
let events = null;
let heardAt = Date.now();
let wait = 1000;

function setLost(isLost) {
  const stage = document.getElementById("main").dataset.stage;
  const isOver = ["finished", "failed", "stopped"].includes(stage);
  const words = isOver ? "Apus has ended." : "No connection to Apus. Trying again …";
  const text = isLost ? words : "";
  const place = document.getElementById("lost");
  if (place.textContent !== text) place.textContent = text;
  root.classList.toggle("is-lost", isLost && !isOver);
}

function connect() {
  events?.close();
  events = new EventSource("events");
  heardAt = Date.now();
  events.onmessage = (event) => {
    heardAt = Date.now();
    wait = 1000;
    setLost(false);
    show(JSON.parse(event.data));
  };
  events.onerror = () => {
    setLost(true);
    if (events.readyState !== EventSource.CLOSED) return;
    setTimeout(connect, wait);
    wait = Math.min(2 * wait, WAIT_MS_MAX);
  };
}

document.addEventListener("DOMContentLoaded", () => {
  showTheme();
  connect();
  setInterval(() => {
    if (Date.now() - heardAt < SILENCE_MS || events.readyState === EventSource.CLOSED) return;
    setLost(true);
    connect();
  }, 5000);
});

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    // Without a secure connection there is no clipboard; the old way needs a selection.
    getSelection().selectAllChildren(source);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.copy) copy(button);
  if (button.id === "theme") {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("theme", chosen);
    } catch {
      // As above.
    }
    showTheme();
  }
});
