// The answer of the language model, sentence by sentence as it comes.

import { currentLanguage, make, say } from "./common.js";

const box = document.getElementById("written");
const body = document.getElementById("sentences");
const note = document.getElementById("ending");

export function clear() {
  box.hidden = true;
  body.replaceChildren();
  note.textContent = "";
}

const draft = () => body.querySelector(".draft") ?? body.appendChild(make("span", { className: "draft" }));

function link(place) {
  const anchor = make("a", { href: `#source-${place}`, textContent: `[${say("source", place)}]`, className: "citation" });
  anchor.addEventListener("click", (event) => {
    event.preventDefault();
    const source = document.getElementById(`source-${place}`);
    source.querySelector("details")?.setAttribute("open", "");
    source.scrollIntoView({ block: "start" });
    source.querySelector("h3").focus();
  });
  return anchor;
}

function doubtOf(sentence) {
  if (sentence.support === "UNCHECKED") return say("unchecked");
  if (sentence.support === "SUPPORTED") return "";
  return sentence.found_in.length ? say("elsewhere", sentence.found_in.map((place) => say("source", place)).join(", ")) : say(sentence.doubt);
}

function sentenceOf(sentence) {
  const doubt = doubtOf(sentence);
  const cited = sentence.citations.length ? sentence.citations : sentence.found_in;
  const text = sentence.support === "UNSUPPORTED" ? make("span", { className: "doubted", textContent: sentence.text }) : sentence.text;
  const links = cited.flatMap((place) => [" ", link(place)]);
  const remark = doubt ? make("span", { className: "doubt", textContent: ` (${doubt})` }) : null;
  return make("span", { className: "sentence" }, text, ...links, remark, " ");
}

let told = [];

function add(sentence) {
  body.querySelector(".draft")?.remove();
  if (sentence.paragraph && body.childElementCount) body.append(make("br"));
  body.append(sentenceOf(sentence));
}

// Takes one event; returns whether the answer ended.
export function take({ name, data }) {
  if (name === "text") {
    box.hidden = false;
    draft().append(data.text);
  } else if (name === "sentence") {
    box.hidden = false;
    told.push(data);
    add(data);
  } else if (name === "restart") {
    told = [];
    body.replaceChildren();
  } else if (name === "end") {
    body.querySelector(".draft")?.remove();
    note.textContent = [say(data.ending), data.message && data.ending === "FAILED" ? `(${data.message})` : ""].filter(Boolean).join(" ");
    note.dataset.ending = data.ending;
    box.hidden = told.length === 0 && note.textContent === "";
    body.setAttribute("aria-busy", "false");
    return true;
  }
  return false;
}

export function begin() {
  told = [];
  clear();
  body.setAttribute("aria-busy", "true");
}

export function redraw() {
  body.lang = currentLanguage();
  body.replaceChildren();
  for (const sentence of told) add(sentence);
  if (note.dataset.ending) note.textContent = say(note.dataset.ending);
}
