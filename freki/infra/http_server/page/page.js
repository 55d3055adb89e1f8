// The page for questions: passages with their sources, and the answer of a language model where one is configured.

import * as answer from "./answer.js";
import { age, call, currentLanguage, eventsOf, hasToken, make, moment, rememberToken, say, tell, translated, version } from "./common.js";

const SLOW_MS = 4000;
const WARNINGS = ["DEGRADED", "FRESHNESS", "UNMET"];

const form = document.getElementById("search");
const field = (name) => form.elements.namedItem(name);
const results = document.getElementById("answer");
let last = null;
let running = null;

const slice = (letters, start, end) => letters.slice(start, end).join("");

// Offsets count code points, those of JavaScript count UTF-16 units.
function marked(element, text, spans, [from, to] = [0, Infinity]) {
  const letters = Array.from(text);
  let end = from;
  for (const [start, stop] of spans) {
    if (start < from || stop > to) continue;
    element.append(slice(letters, end, start), make("mark", { textContent: slice(letters, start, stop) }));
    end = stop;
  }
  element.append(slice(letters, end, Math.min(to, letters.length)));
  return element;
}

function linkOf(hit) {
  if (!URL.canParse(hit.source_uri ?? "")) return null;
  const url = new URL(hit.source_uri);
  if (!["http:", "https:"].includes(url.protocol)) return null;
  const heading = hit.heading_path.at(-1);
  if (hit.first_page > 0 && url.hash === "") url.hash = `page=${hit.first_page}`;
  else if (heading && url.hash === "") url.hash = `:~:text=${encodeURIComponent(heading).replaceAll("-", "%2D")}`;
  const link = make("a", { href: url.href, rel: "noreferrer noopener", target: "_blank", textContent: say("original") });
  link.setAttribute("aria-label", `${say("original")}: ${hit.name}`);
  return link;
}

function around(hit, marks) {
  if (!marks?.section) return null;
  const [start, end] = marks.hit;
  const body = make("p", { className: "around", lang: hit.language });
  marked(body, marks.section, marks.around, [0, start]);
  body.append(marked(make("b"), marks.section, marks.around, [start, end]));
  marked(body, marks.section, marks.around, [end, Infinity]);
  const summary = make("summary", { textContent: say("around") });
  return make("details", {}, summary, body);
}

// Without tokens nobody knows who judges: a name of this browser bounds what one person does to rankings.
function judgeName() {
  if (localStorage.getItem("judge") === null) {
    const bytes = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0"));
    localStorage.setItem("judge", `page-${bytes.join("")}`);
  }
  return localStorage.getItem("judge");
}

function buttonOf(hit, key, verdict) {
  const button = make("button", { type: "button", className: "quiet", textContent: say(key) });
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", async () => {
    const { question, result } = last;
    const body = { query_id: result.query_id, question, document_id: hit.document_id, chunk_id: hit.chunk_id, verdict, ...scope() };
    delete body.principals;
    if (!hasToken()) body.judge = judgeName();
    try {
      await call("/v1/judgements", body);
      for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
      tell(say("thanks"));
    } catch (error) {
      tell(error.message, true);
    }
  });
  return button;
}

function drawHit(hit, marks) {
  const place = [hit.heading_path.join(" › "), hit.first_page > 0 ? say("page", hit.first_page) : ""].filter(Boolean).join(", ");
  const facts = [hit.document_id, version(hit.version), hit.age_ms >= 0 ? say("age", age(hit.age_ms)) : "", say("score", hit.score.toFixed(2))];
  const title = make("h3", { tabIndex: -1 }, make("span", { className: "number", textContent: hit.rank }), hit.name);
  const buttons = make("div", { className: "judge" }, buttonOf(hit, "useful", "UP"), buttonOf(hit, "useless", "DOWN"));
  buttons.setAttribute("role", "group");
  buttons.setAttribute("aria-label", say("judgement", hit.rank));
  const copies = hit.duplicates.map((copy) => copy.document_id).join(", ");
  const link = linkOf(hit);
  const text = marked(make("p", { className: "text", lang: hit.language }), hit.text, marks?.text ?? []);
  return make("li", { id: `source-${hit.rank}` }, make("article", { className: "hit" },
    title,
    place ? make("p", { className: "place", textContent: place, lang: hit.language }) : null,
    hit.generated ? make("p", { className: "facts", textContent: say("generated") }) : null,
    text,
    around(hit, marks),
    copies ? make("p", { className: "facts", textContent: say("also", copies) }) : null,
    make("div", { className: "foot" },
      make("p", { className: "facts" }, facts.filter(Boolean).join(" · "), link === null ? "" : " · ", link), buttons),
  ));
}

const remark = (text, lang) => make("li", { textContent: text, lang });
// Notices come in English, advice in German for German questions.
const noticed = (text) => remark(text, "en");
const advised = (result) => result.advice.map((text) => remark(text, result.analysis?.language === "de" ? "de" : "en"));

function draw({ result, marks }) {
  // Advice is given where little was found, or nothing that surely fits.
  const doubtful = result.advice.length > 0;
  const heading = result.hits.length === 0 ? say("nothing") : doubtful ? say("near") : say("found", result.hits.length);
  document.getElementById("heading").textContent = heading;
  const warnings = result.notices.filter((notice) => WARNINGS.includes(notice.kind)).map((notice) => notice.message);
  document.getElementById("degraded").hidden = result.status !== "DEGRADED";
  document.getElementById("notices").replaceChildren(...warnings.map(noticed), ...advised(result));
  const others = result.notices.filter((notice) => !WARNINGS.includes(notice.kind));
  const leftOut = document.getElementById("left-out");
  leftOut.hidden = others.length === 0;
  leftOut.querySelector("summary").textContent = say("leftOut", others.length);
  leftOut.querySelector("ul").replaceChildren(...others.map((notice) => noticed(`${notice.stage}: ${notice.message}`)));
  document.getElementById("hits").replaceChildren(...result.hits.map((hit, place) => drawHit(hit, marks[place])));
  const through = result.freshness.indexed_through;
  document.getElementById("freshness").textContent = through === null ? say("unknown") : say("fresh", moment(through));
  const steps = document.getElementById("steps");
  steps.querySelector("summary").textContent = say("steps", Math.round(result.answered_at - result.asked_at));
  steps.querySelector("tbody").replaceChildren(...result.stages.map((stage) => make("tr", {},
    make("td", { textContent: stage.stage, lang: "en" }),
    make("td", { textContent: `${stage.milliseconds.toFixed(1)} ms` }),
    make("td", { textContent: stage.items }))));
  results.hidden = false;
}

const groups = () => field("groups").value.split(",").map((name) => name.trim()).filter(Boolean);

function scope() {
  const named = field("tenant").value ? { tenant: field("tenant").value } : {};
  return groups().length && !hasToken() ? { ...named, principals: groups() } : named;
}

function filters() {
  const given = [["language", "EQ"], ["kind", "EQ"], ["media_type", "EQ"], ["name", "PREFIX"]].filter(([name]) => field(name).value);
  const chosen = given.map(([name, operator]) => ({ field: name, operator, values: [field(name).value] }));
  if (!field("attribute").value) return chosen;
  const [key, value] = JSON.parse(field("attribute").value);
  return [...chosen, { field: `attributes.${key}`, operator: "EQ", values: [value] }];
}

function waiting(turn) {
  const button = form.querySelector("button[type=submit]");
  const cancel = document.getElementById("cancel");
  button.disabled = true;
  cancel.hidden = false;
  tell(say("asking"));
  const slow = setTimeout(() => tell(say("slow")), SLOW_MS);
  return {
    found: () => clearTimeout(slow),
    over: () => {
      clearTimeout(slow);
      if (running !== turn) return;
      button.disabled = false;
      cancel.hidden = true;
      running = null;
    },
  };
}

async function ask() {
  const question = field("question").value.trim();
  if (!question) return;
  running?.abort();
  const turn = (running = new AbortController());
  const wait = waiting(turn);
  answer.begin();
  const write = field("write").checked;
  const body = { text: question, filters: filters(), top_k: Number(field("top").value) || 8, ...scope() };
  let result = null;
  try {
    for await (const event of eventsOf(`/v1/answers?write=${write}`, body, turn.signal)) {
      if (event.name === "result") {
        result = event.data;
      } else if (event.name === "marks") {
        wait.found();
        last = { result, marks: event.data, question };
        tell(write && result.hits.length ? say("writing") : "");
        draw(last);
        history.replaceState(null, "", `?q=${encodeURIComponent(question)}`);
        document.getElementById("heading").focus();
      } else if (answer.take(event)) {
        tell("");
      }
    }
  } catch (error) {
    if (error.name === "AbortError") {
      if (running === turn) tell(say("cancelled"));
    } else {
      results.hidden = true;
      tell(error.message, true);
    }
  } finally {
    wait.over();
  }
}

const option = (value, text) => make("option", { value, textContent: text });

// Offers what the first documents have, which whoever asks may read.
async function offer() {
  const query = new URLSearchParams({ limit: 100 });
  if (field("tenant").value) query.set("tenant", field("tenant").value);
  for (const name of hasToken() ? [] : groups()) query.append("principal", name);
  let documents;
  try {
    ({ documents } = await call(`/v1/documents?${query}`));
  } catch (error) {
    tell(error.message, true);
    return;
  }
  const kinds = [...new Set(documents.map((each) => each.media_type))].sort();
  const attributes = [...new Set(documents.flatMap((each) => Object.entries(each.attributes)).map((pair) => JSON.stringify(pair)))].sort();
  const languages = [...new Set(documents.map((each) => each.language))].sort();
  const names = new Intl.DisplayNames(currentLanguage(), { type: "language", fallback: "code" });
  const refill = (select, options) => {
    const kept = select.value;
    select.replaceChildren(select.options[0], ...options);
    select.value = options.some((each) => each.value === kept) ? kept : "";
  };
  refill(field("media_type"), kinds.map((kind) => option(kind, kind)));
  refill(field("attribute"), attributes.map((pair) => option(pair, JSON.parse(pair).join(": "))));
  refill(field("language"), languages.map((code) => option(code, code === "und" ? code : names.of(code))));
  const note = document.getElementById("facets");
  note.textContent = documents.length ? say("facets", documents.length) : say("noDocuments");
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
document.getElementById("cancel").addEventListener("click", () => running?.abort());
const options = document.getElementById("options");
options.addEventListener("toggle", () => {
  if (options.open) offer();
});
for (const name of ["tenant", "groups", "token"]) field(name).addEventListener("change", () => options.open && offer());
field("write").checked = localStorage.getItem("write") !== "no";
field("write").addEventListener("change", () => localStorage.setItem("write", field("write").checked ? "yes" : "no"));
rememberToken();
field("question").value = new URLSearchParams(location.search).get("q") ?? "";
translated(() => {
  answer.redraw();
  if (last !== null) draw(last);
});
if (field("question").value) ask();
