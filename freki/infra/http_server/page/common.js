// What both pages share. Text of documents is only ever set as text, never as HTML: documents are not trusted.

import { TEXTS } from "./texts.js";

const UNITS = [["year", 31536e6], ["month", 2592e6], ["day", 864e5], ["hour", 36e5], ["minute", 6e4], ["second", 1e3]];

let language = (localStorage.getItem("language") ?? navigator.language).startsWith("de") ? "de" : "en";

export const say = (key, ...values) => (values.length ? TEXTS[language][key](...values) : TEXTS[language][key]);
export const currentLanguage = () => language;

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function age(milliseconds) {
  const [unit, length] = UNITS.find(([, length]) => milliseconds >= length) ?? UNITS.at(-1);
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long" }).format(Math.floor(milliseconds / length));
}

export const seconds = (value) => `${new Intl.NumberFormat(language, { maximumFractionDigits: value < 10 ? 2 : 0 }).format(value)} s`;
export const moment = (at) => new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" }).format(at);
// Versions of files, repositories and sites are times in milliseconds; those of other sources may be counters.
const EARLIEST = Date.UTC(1990, 0), LATEST = Date.UTC(2100, 0);
export const version = (value) => say("version", value >= EARLIEST && value < LATEST ? moment(value) : value);
export const number = (value) => new Intl.NumberFormat(language).format(value);

// Sets all texts of the page, and again whenever the reader changes the language; then `draw` draws what was fetched.
export function translated(draw) {
  const toggle = document.getElementById("language");
  const translate = () => {
    document.documentElement.lang = language;
    for (const element of document.querySelectorAll("[data-text]")) element.textContent = say(element.dataset.text);
    toggle.lang = language === "de" ? "en" : "de";
    toggle.textContent = language === "de" ? "English" : "Deutsch";
    draw();
  };
  toggle.addEventListener("click", () => {
    language = language === "de" ? "en" : "de";
    localStorage.setItem("language", language);
    translate();
  });
  translate();
}

export function tell(text, wrong = false) {
  const status = document.getElementById("status");
  status.classList.toggle("wrong", wrong);
  status.textContent = text;
}

const tokenField = () => document.querySelector("input[name=token]");

export function rememberToken() {
  tokenField().value = sessionStorage.getItem("token") ?? "";
  tokenField().addEventListener("change", () => sessionStorage.setItem("token", tokenField().value));
}

export const hasToken = () => tokenField().value !== "";

async function fetched(path, body, signal) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  if (hasToken()) headers.Authorization = `Bearer ${tokenField().value}`;
  let response;
  try {
    response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(say("failed"));
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Error(told.detail ?? response.statusText);
}

export async function call(path, body, signal) {
  const response = await fetched(path, body, signal);
  return response.status === 204 ? null : response.json();
}

// Server-sent events of a call, which EventSource cannot make: it sends neither a body nor a token.
export async function* eventsOf(path, body, signal) {
  const response = await fetched(path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = Object.fromEntries(block.split("\n").filter((line) => !line.startsWith(":")).map((line) => line.split(/: (.*)/s)));
      if (lines.event) yield { name: lines.event, data: JSON.parse(lines.data) };
    }
  }
}

export function table(headings, rows, label) {
  const element = make("table", {},
    make("thead", {}, make("tr", {}, ...headings.map((heading) => make("th", { scope: "col", textContent: heading })))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell, place) => {
      const box = make(place === 0 ? "th" : "td", place === 0 ? { scope: "row" } : {}, cell ?? "");
      box.dataset.label = headings[place];
      return box;
    })))));
  element.setAttribute("aria-label", label);
  // Wide tables scroll by themselves, also by keyboard. Sections are the landmarks, so tables are none.
  const box = make("div", { className: "wide", tabIndex: 0 }, element);
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", label);
  return box;
}
