// The page for operators: state of all parts, dead letters, receipts as they come, documents.

import { call, eventsOf, hasToken, make, moment, number, rememberToken, say, seconds, table, tell, translated, version } from "./common.js";

const EVERY_MS = 5000;
const MOST_RECEIPTS = 100;
const MOST_LETTERS = 1000;
const AGAIN_MS = 3000;

const at = (id) => document.getElementById(id);
const form = at("find");
const field = (name) => form.elements.namedItem(name);
let overview = null;
let letters = null;
let documents = null;
let receipts = [];
let heard = null;

// Each part fails alone: what the others show stays.
async function attempt(action) {
  try {
    await action();
    return true;
  } catch (error) {
    tell(error.message, true);
    return false;
  }
}

function drawOverview() {
  if (overview === null) return;
  const { stages, workers, generations, freshness, problems } = overview;
  const wrong = [...problems, ...workers.flatMap((each) => each.wrong.map((why) => `${each.name || each.url}: ${why}`))];
  const fresh = freshness === null ? say(workers.some((each) => each.wrong.length) ? "unknownFreshness" : "noFreshness") : say("freshness", freshness, seconds(freshness.p50_s), seconds(freshness.p95_s));
  at("overview").replaceChildren(
    make("p", { className: wrong.length ? "warning" : "fine", textContent: wrong.length ? say("troubles", wrong.length) : say("allFine") }),
    make("ul", { className: "problems" }, ...wrong.map((text) => make("li", { textContent: text, lang: "en" }))),
    make("p", { textContent: fresh }),
    make("h3", { textContent: say("stages") }),
    table([say("stage"), say("topic"), say("records"), say("waiting"), say("oldest")], stages.map((each) => [
      each.stage, each.topic, number(each.records), number(each.waiting), each.oldest_ms === null ? "–" : seconds(each.oldest_ms / 1000),
    ]), say("stages")),
    make("h3", { textContent: say("workers") }),
    workers.length ? table([say("worker"), "URL", say("health")], workers.map((each) => [
      each.name || "–", each.url, each.wrong.length ? each.wrong.join("; ") : say("fine"),
    ]), say("workers")) : make("p", { textContent: say("noWorkers") }),
    make("h3", { textContent: say("generations") }),
    table([say("generation"), say("answers"), say("documents"), say("chunks"), say("deletions"), say("outdated"), say("lastCommit")],
      generations.map((each) => [
        each.name, each.answers ? say("yes") : say("no"),
        ...[each.documents, each.chunks, each.deletions, each.outdated].map((count) => (count === null ? "–" : number(count))),
        each.last_commit_at === null ? (each.documents === null ? "–" : say("never")) : moment(each.last_commit_at),
      ]), say("generations")),
    make("p", { className: "small", textContent: say("seen", moment(overview.at)) }),
  );
}

function replayButton(names, text) {
  const button = make("button", { type: "button", className: "quiet", textContent: text });
  button.addEventListener("click", () => confirmReplay(names, button));
  return button;
}

function confirmReplay(names, button) {
  at("confirm-text").textContent = say("confirm", names.length);
  at("confirm").showModal();
  at("yes").onclick = async () => {
    at("confirm").close();
    button.disabled = true;
    await attempt(async () => {
      const results = [];
      // The latest ones come first in the list, and are sent last.
      for (let end = names.length; end > 0; end -= MOST_LETTERS) {
        const some = names.slice(Math.max(0, end - MOST_LETTERS), end);
        results.push(...await call("/v1/operations/dead-letters/replay", { letters: some }));
      }
      const kept = results.filter((each) => !each.sent);
      const why = [...new Set(kept.map((each) => each.reason))].join("; ");
      tell([say("replayed", results.length - kept.length, kept.length), why].filter(Boolean).join(" "), kept.length > 0);
      await loadLetters();
    });
    button.disabled = false;
  };
}

function drawGroup(group) {
  const open = group.letters.filter((each) => !each.sent_again && !each.superseded).map((each) => each.letter);
  const rows = group.letters.map((each) => [
    each.letter, each.key || each.record, moment(each.died_at), number(each.attempts),
    each.sent_again ? say("wasSent") : each.superseded ? say("superseded") : replayButton([each.letter], say("replay")),
  ]);
  return make("article", { className: "hit" },
    make("h3", { textContent: `${say("letterCount", group.letters.length)}: ${group.stage}` }),
    make("p", { className: "text", lang: "en", textContent: `${group.error}: ${group.message}` }),
    make("p", { className: "facts", textContent: group.first_at === group.last_at ? moment(group.last_at) : `${moment(group.first_at)} – ${moment(group.last_at)}` }),
    open.length > 1 ? replayButton(open, say("replayAll", open.length)) : null,
    table([say("letters"), say("key"), say("at"), say("tries"), say("replay")], rows, `${say("letters")}, ${group.stage}`));
}

function drawLetters() {
  if (letters === null) return;
  at("letters").replaceChildren(...(letters.length ? letters.map(drawGroup) : [make("p", { textContent: say("noLetters") })]));
}

function drawReceipts() {
  at("listening").textContent = heard === null ? "" : say(heard);
  const rows = receipts.map((each) => [each.document_id, each.tenant, each.status, moment(each.recorded_at), each.searchable_at === null ? "–" : seconds((each.searchable_at - each.recorded_at) / 1000), each.reason || "–"]);
  at("receipts").replaceChildren(rows.length
    ? table([say("document"), say("tenant"), say("status"), say("at"), say("visible"), say("reason")], rows, say("receipts"))
    : make("p", { textContent: say("noReceipts") }));
}

function drawDocuments() {
  if (documents === null) return;
  const rows = documents.list.map((each) => {
    const button = make("button", { type: "button", className: "link", textContent: each.document_id });
    button.setAttribute("aria-label", say("showDocument", each.document_id));
    button.addEventListener("click", () => attempt(() => show(each.document_id)));
    return [button, each.name, each.media_type, each.language, number(each.chunks), moment(each.searchable_at)];
  });
  at("documents").replaceChildren(rows.length
    ? table([say("document"), "Name", say("type"), say("language"), say("chunks"), say("published")], rows, say("documents"))
    : make("p", { textContent: say("noDocuments") }));
  at("more").hidden = documents.next === null;
}

const groups = () => field("groups").value.split(",").map((name) => name.trim()).filter(Boolean);

function asked(given) {
  const query = new URLSearchParams(given);
  if (field("tenant").value) query.set("tenant", field("tenant").value);
  for (const name of hasToken() ? [] : groups()) query.append("principal", name);
  return query;
}

async function find(cursor = null) {
  const query = asked({ prefix: field("prefix").value, limit: 50 });
  if (cursor !== null) query.set("cursor", cursor);
  const report = await call(`/v1/documents?${query}`);
  documents = { list: [...(cursor === null ? [] : documents.list), ...report.documents], next: report.next };
  drawDocuments();
}

async function show(id) {
  // With its slashes, else the browser would take steps such as `..` out of the address.
  const report = await call(`/v1/documents/${encodeURIComponent(id)}?${asked({ limit: 100 })}`);
  const [document] = report.documents;
  const facts = Object.entries({ ...document.attributes, [say("readers")]: document.principals.join(", "), [say("characters")]: number(document.characters) });
  at("shown-heading").textContent = document.name || id;
  at("shown-body").replaceChildren(
    make("p", { className: "facts", textContent: [id, version(document.version), document.media_type, moment(document.searchable_at)].join(" · ") }),
    make("p", { className: "facts", textContent: facts.map((pair) => pair.join(": ")).join(" · ") }),
    make("ol", { className: "chunks", lang: document.language }, ...report.chunks.map((chunk) => make("li", {},
      make("p", { className: "place", textContent: [chunk.heading_path.join(" › "), `${chunk.start}–${chunk.end}`].filter(Boolean).join(", ") }),
      make("p", { className: "text", textContent: chunk.text })))),
  );
  at("shown").showModal();
}

async function look() {
  overview = await call("/v1/operations/overview");
  drawOverview();
}

async function loadLetters() {
  letters = await call(`/v1/operations/dead-letters?all=${at("all-letters").checked}`);
  drawLetters();
}

async function listen() {
  while (true) {
    const whole = await attempt(async () => {
      for await (const { name, data } of eventsOf("/v1/operations/receipts")) {
        if (name === "ready") heard = "listening";
        if (name === "receipt") receipts = [data, ...receipts].slice(0, MOST_RECEIPTS);
        if (name === "failed") throw new Error(data.detail);
        drawReceipts();
      }
    });
    heard = whole ? "lost" : heard === null ? null : "lost";
    drawReceipts();
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

async function watch() {
  while (true) {
    if (!document.hidden && !(await attempt(look))) overview = null;
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

at("refresh").addEventListener("click", () => attempt(async () => Promise.all([look(), loadLetters(), find()])));
at("all-letters").addEventListener("change", () => attempt(loadLetters));
at("more").addEventListener("click", () => attempt(() => find(documents.next)));
at("close").addEventListener("click", () => at("shown").close());
at("no").addEventListener("click", () => at("confirm").close());
form.addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(() => find());
});
rememberToken();
document.querySelector("input[name=token]").addEventListener("change", () => attempt(async () => Promise.all([look(), loadLetters(), find()])));
translated(() => {
  drawOverview();
  drawLetters();
  drawReceipts();
  drawDocuments();
});
attempt(loadLetters);
attempt(() => find());
listen();
watch();
