// Publishes a document over gRPC, has a prompt of 1,000,000 characters enriched, prints the documents that belong to it.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const DOCUMENT = "examples/node-grpc";
const TEXT = "Der Waffenschein ist bei der Kreisverwaltung zu beantragen. Node hat ihn veröffentlicht.";
const QUESTION = "Wo ist der Waffenschein zu beantragen?";
const PROMPT_CHARACTERS = 1_000_000;
const PATIENCE_MS = 60_000;

const [address, contracts] = process.argv.slice(2);
if (contracts === undefined) {
  console.error("usage: node enrich.js ADDRESS CONTRACTS");
  console.error("ADDRESS: as `freki serve` prints it; CONTRACTS: where `freki schemas export` wrote to");
  process.exit(2);
}
const files = ["freki.proto", "wolf.proto"].map((name) => join(contracts, "freki", "v1", name));
const { Freki, Wolf } = grpc.loadPackageDefinition(loadSync(files, { keepCase: true, longs: Number, enums: String })).freki.v1;

function call(client, method, request) {
  // The deadline of the call is that of the query: an answer leaves before it.
  const metadata = new grpc.Metadata();
  if (process.env.TOKEN !== undefined) metadata.set("authorization", `Bearer ${process.env.TOKEN}`);
  return promisify(client[method].bind(client))(request, metadata, { deadline: Date.now() + PATIENCE_MS });
}

const credentials = grpc.credentials.createInsecure();
const freki = new Freki(address, credentials);
const wolf = new Wolf(address, credentials);
try {
  const document = { document_id: DOCUMENT, text: TEXT, principals: ["everyone"] };
  const { receipt } = await call(freki, "IndexDocument", { document, wait_ms: PATIENCE_MS });
  console.log(`receipt: ${receipt?.status ?? "none yet"}`);

  const prompt = `${QUESTION} `.padEnd(PROMPT_CHARACTERS, "Bitte höflich antworten. ");
  const request = { request_id: randomUUID(), model_type: "RAG", prompt };
  const response = await call(wolf, "Enrich", request);
  console.log(`request: ${response.request_id === request.request_id ? "as sent" : "another one"}`);
  for (const { document_id, content } of response.rag_context.documents) console.log(`${document_id}: ${content}`);
  console.log(`left out: ${response.metadata.error ?? "nothing"}`);
} finally {
  freki.close();
  wolf.close();
}
