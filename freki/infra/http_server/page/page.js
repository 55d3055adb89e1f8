// The page of `freki serve`. Text of documents is only ever set as text, never as HTML: documents are not trusted.

const TEXTS = {
  en: {
    question: "Question", ask: "Ask", options: "Filters and rights", language: "Language of documents", any: "any",
    kind: "Kind of passage", prose: "text", code: "code", table: "table", list: "list",
    name: "Name of the document begins with", top: "Most passages", tenant: "Tenant",
    token: "Token, if the server wants one (kept until this tab closes)", step: "Step", time: "Time", items: "Items",
    asking: "Searching …", found: (n) => (n === 1 ? "1 passage" : `${n} passages`), nothing: "Nothing here answers this",
    near: "Nothing here clearly answers this; the nearest passages:", version: (v) => `version ${v}`, page: (p) => `page ${p}`,
    score: (s) => `score ${s}`, age: (a) => `${a} old`, around: "In its context", useful: "Useful", useless: "Not useful",
    thanks: "Noted.", steps: (ms) => `Steps, ${ms} ms in all`, also: (ids) => `Also in ${ids}`,
    fresh: (when) => `The index has what was published up to ${when}.`, unknown: "The index does not know how fresh it is.",
    original: "original", failed: "The server does not answer.", judgement: (n) => `Judge passage ${n}`,
  },
  de: {
    question: "Frage", ask: "Fragen", options: "Filter und Rechte", language: "Sprache der Dokumente", any: "beliebig",
    kind: "Art der Stelle", prose: "Text", code: "Code", table: "Tabelle", list: "Liste",
    name: "Name des Dokuments beginnt mit", top: "Höchstens so viele Stellen", tenant: "Mandant",
    token: "Token, falls der Server eines verlangt (bis dieser Tab schließt)", step: "Schritt", time: "Zeit", items: "Anzahl",
    asking: "Suche läuft …", found: (n) => (n === 1 ? "1 Stelle" : `${n} Stellen`), nothing: "Dazu wurde hier nichts gefunden",
    near: "Nichts beantwortet das eindeutig; die nächsten Stellen:", version: (v) => `Version ${v}`, page: (p) => `Seite ${p}`,
    score: (s) => `Wertung ${s}`, age: (a) => `${a} alt`, around: "Im Zusammenhang", useful: "Hilfreich", useless: "Nicht hilfreich",
    thanks: "Vermerkt.", steps: (ms) => `Schritte, zusammen ${ms} ms`, also: (ids) => `Auch in ${ids}`,
    fresh: (when) => `Der Index enthält, was bis ${when} veröffentlicht wurde.`, unknown: "Wie aktuell der Index ist, ist nicht bekannt.",
    original: "Original", failed: "Der Server antwortet nicht.", judgement: (n) => `Stelle ${n} beurteilen`,
  },
};
const UNITS = [["year", 31536e6], ["month", 2592e6], ["day", 864e5], ["hour", 36e5], ["minute", 6e4], ["second", 1e3]];

const form = document.getElementById("search");
const field = (name) => form.elements.namedItem(name);
const status = document.getElementById("status");
const answer = document.getElementById("answer");
const toggle = document.getElementById("language");
let language = (localStorage.getItem("language") ?? navigator.language).startsWith("de") ? "de" : "en";
let last = null;
let latest = 0;

const say = (key, ...values) => (values.length ? TEXTS[language][key](...values) : TEXTS[language][key]);

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
}

function translate() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = say(element.dataset.text);
  toggle.lang = language === "de" ? "en" : "de";
  toggle.textContent = language === "de" ? "English" : "Deutsch";
  if (last !== null) draw(last);
}

function age(milliseconds) {
  const [unit, length] = UNITS.find(([, length]) => milliseconds >= length) ?? UNITS.at(-1);
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long" }).format(Math.floor(milliseconds / length));
}

// Marks words that begin like one of the question: of "Kündigung" also "Kündigungsfrist".
function marked(text, question) {
  const words = [...question.toLowerCase().matchAll(/[\p{L}\p{N}§]{4,}/gu)].map(([word]) => word);
  const stems = words.map((word) => word.slice(0, Math.max(4, word.length - 2)));
  const element = make("p", { className: "text" });
  let end = 0;
  for (const match of text.matchAll(/[\p{L}\p{N}§]+/gu)) {
    if (!stems.some((stem) => match[0].toLowerCase().startsWith(stem))) continue;
    element.append(text.slice(end, match.index), make("mark", { textContent: match[0] }));
    end = match.index + match[0].length;
  }
  element.append(text.slice(end));
  return element;
}

function linkOf(hit) {
  if (!URL.canParse(hit.source_uri ?? "")) return null;
  const url = new URL(hit.source_uri);
  if (!["http:", "https:"].includes(url.protocol)) return null;
  if (hit.first_page > 0 && url.hash === "") url.hash = `page=${hit.first_page}`;
  return make("a", { href: url.href, rel: "noreferrer noopener", target: "_blank", textContent: say("original") });
}

function around(hit) {
  if (hit.parent === null && hit.before.length + hit.after.length === 0) return null;
  const body = make("p", { className: "around" });
  const at = hit.parent === null ? -1 : hit.parent.text.indexOf(hit.text);
  const match = make("b", { textContent: hit.text });
  if (at >= 0) {
    body.append(hit.parent.text.slice(0, at), match, hit.parent.text.slice(at + hit.text.length));
  } else if (hit.parent !== null) {
    body.append(hit.parent.text);
  } else {
    body.append(hit.before.map((part) => `${part.text}\n\n`).join(""), match, hit.after.map((part) => `\n\n${part.text}`).join(""));
  }
  return make("details", {}, make("summary", { textContent: say("around") }), body);
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
    if (!field("token").value) body.judge = judgeName();
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

function drawHit(hit, question) {
  const place = [hit.heading_path.join(" › "), hit.first_page > 0 ? say("page", hit.first_page) : ""].filter(Boolean).join(", ");
  const facts = [hit.document_id, say("version", hit.version), hit.age_ms >= 0 ? say("age", age(hit.age_ms)) : "", say("score", hit.score.toFixed(2))];
  const title = make("h2", {}, make("span", { className: "number", textContent: hit.rank }), hit.name);
  const buttons = make("div", { className: "judge" }, buttonOf(hit, "useful", "UP"), buttonOf(hit, "useless", "DOWN"));
  buttons.setAttribute("role", "group");
  buttons.setAttribute("aria-label", say("judgement", hit.rank));
  const copies = hit.duplicates.map((copy) => copy.document_id).join(", ");
  const link = linkOf(hit);
  const text = marked(hit.text, question);
  text.lang = hit.language;
  return make("li", {}, make("article", { className: "hit" },
    title,
    place ? make("p", { className: "place", textContent: place, lang: hit.language }) : null,
    text,
    around(hit),
    copies ? make("p", { className: "facts", textContent: say("also", copies) }) : null,
    make("div", { className: "foot" },
      make("p", { className: "facts" }, facts.filter(Boolean).join(" · "), link === null ? "" : " · ", link), buttons),
  ));
}

function draw({ result, question }) {
  // Advice is given where little was found, or nothing that surely fits.
  const doubtful = result.advice.length > 0;
  const heading = result.hits.length === 0 ? say("nothing") : doubtful ? say("near") : say("found", result.hits.length);
  document.getElementById("heading").textContent = heading;
  const told = [...result.notices.filter((notice) => notice.stage !== "assemble").map((notice) => notice.message), ...result.advice];
  document.getElementById("notices").replaceChildren(...told.map((text) => make("li", { textContent: text })));
  document.getElementById("hits").replaceChildren(...result.hits.map((hit) => drawHit(hit, question)));
  const through = result.freshness.indexed_through;
  const format = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
  document.getElementById("freshness").textContent = through === null ? say("unknown") : say("fresh", format.format(through));
  const steps = document.getElementById("steps");
  steps.querySelector("summary").textContent = say("steps", Math.round(result.answered_at - result.asked_at));
  steps.querySelector("tbody").replaceChildren(...result.stages.map((stage) => make("tr", {},
    make("td", { textContent: stage.stage }),
    make("td", { textContent: `${stage.milliseconds.toFixed(1)} ms` }),
    make("td", { textContent: stage.items }))));
  answer.hidden = false;
}

function tell(text, wrong = false) {
  status.classList.toggle("wrong", wrong);
  status.textContent = text;
}

async function call(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (field("token").value) headers.Authorization = `Bearer ${field("token").value}`;
  let response;
  try {
    response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  } catch {
    throw new Error(say("failed"));
  }
  const reply = response.status === 204 ? null : await response.json();
  if (!response.ok) throw new Error(reply.detail ?? response.statusText);
  return reply;
}

const scope = () => (field("tenant").value ? { tenant: field("tenant").value } : {});

function filters() {
  const given = [["language", "EQ"], ["kind", "EQ"], ["name", "PREFIX"]].filter(([name]) => field(name).value);
  return given.map(([name, operator]) => ({ field: name, operator, values: [field(name).value] }));
}

async function ask() {
  const question = field("question").value.trim();
  if (!question) return;
  const turn = ++latest;
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  sessionStorage.setItem("token", field("token").value);
  tell(say("asking"));
  try {
    const result = await call("/v1/queries", { text: question, filters: filters(), top_k: Number(field("top").value) || 8, ...scope() });
    if (turn !== latest) return;
    last = { result, question };
    tell("");
    draw(last);
    history.replaceState(null, "", `?q=${encodeURIComponent(question)}`);
    document.getElementById("heading").focus();
  } catch (error) {
    answer.hidden = true;
    tell(error.message, true);
  } finally {
    button.disabled = false;
  }
}

toggle.addEventListener("click", () => {
  language = language === "de" ? "en" : "de";
  localStorage.setItem("language", language);
  translate();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
field("token").value = sessionStorage.getItem("token") ?? "";
field("question").value = new URLSearchParams(location.search).get("q") ?? "";
translate();
if (field("question").value) ask();
