// Publishes a document, waits for its receipt, asks a question, prints the answer.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Kafka, logLevel, Partitioners } from "kafkajs";
import { Contract } from "./contract.js";
import { Tail } from "./tail.js";

const TENANT = "default";
const DOCUMENT = "examples/node";
const TEXT = "Der Angelschein ist beim Ordnungsamt zu beantragen. Node hat ihn veröffentlicht.";
const QUESTION = "Wo ist der Angelschein zu beantragen?";
const PATIENCE_MS = 60_000;

const [bootstrap, contracts] = process.argv.slice(2);
if (contracts === undefined) {
  console.error("usage: node publish-and-ask.js BOOTSTRAP CONTRACTS");
  console.error("BOOTSTRAP: the broker's address; CONTRACTS: where `freki schemas export` wrote to");
  process.exit(2);
}
const contract = (record) => new Contract(join(contracts, `${record}.avsc`));

async function publish(kafka, admin, producer) {
  const now = Date.now();
  const key = `${TENANT}/${DOCUMENT}`;
  const change = contract("DocumentChange").encode({
    tenant: TENANT,
    document_id: DOCUMENT,
    operation: "UPSERT",
    version: now, // must grow with every change of the document
    occurred_at: now,
    principals: ["everyone"],
    content: TEXT,
  });
  // The end of `outcomes` is noted before the change is sent, so that its receipt cannot be missed.
  const receipts = await Tail.open(kafka, admin, "freki.outcomes.v1", contract("IndexOutcome"));
  try {
    await producer.send({ topic: "freki.documents.v1", messages: [{ key, value: change }] });
    // A change that Freki cannot decode has no version that it knew: its receipt says 0.
    const undecodable = (outcome) => outcome.version === 0 && outcome.status === "REJECTED";
    const fits = (outcome) => outcome.version === now || undecodable(outcome);
    const receipt = await receipts.await(key, fits, PATIENCE_MS);
    console.log(`receipt: ${receipt.status} ${receipt.reason}`);
  } finally {
    await receipts.close();
  }
}

async function ask(kafka, admin, producer) {
  const id = randomUUID();
  const query = contract("ContextQuery").encode({
    query_id: id,
    tenant: TENANT,
    text: QUESTION,
    asked_at: Date.now(),
    deadline_ms: PATIENCE_MS,
  });
  const answers = await Tail.open(kafka, admin, "freki.contexts.v1", contract("ContextResult"));
  try {
    await producer.send({ topic: "freki.queries.v1", messages: [{ key: id, value: query }] });
    const result = await answers.await(id, () => true, PATIENCE_MS);
    console.log(`answer: ${result.status}`);
    for (const hit of result.hits) console.log(`${hit.rank}. ${hit.document_id}: ${hit.text}`);
    for (const notice of result.notices) console.log(`notice: ${notice.message}`);
  } finally {
    await answers.close();
  }
}

const kafka = new Kafka({ clientId: "freki-example", brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const admin = kafka.admin();
// The default partitioner of kafkajs 2 is murmur2, as Java's and Freki's: one document's records meet in one partition.
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
try {
  await admin.connect();
  await producer.connect();
  await publish(kafka, admin, producer);
  await ask(kafka, admin, producer);
} finally {
  await producer.disconnect();
  await admin.disconnect();
}
