// Validates an AsyncAPI document with the official parser; prints each problem, and exits with 1 if there is an error.
import { readFile } from "node:fs/promises";
import { AvroSchemaParser } from "@asyncapi/avro-schema-parser";
import { Parser } from "@asyncapi/parser";

const [file] = process.argv.slice(2);
const parser = new Parser({ schemaParsers: [AvroSchemaParser()] });
const { document, diagnostics } = await parser.parse(await readFile(file, "utf-8"), { source: file });
for (const { severity, code, message, path } of diagnostics) {
  console.log(`${["error", "warning", "information", "hint"][severity]} ${code} at ${path.join(".")}: ${message}`);
}
const failed = document === undefined || diagnostics.some(({ severity }) => severity === 0);
if (!failed) {
  const messages = document.channels().all().flatMap((channel) => channel.messages().all());
  console.log(`${file} is valid: ${document.channels().all().length} channels, ${messages.length} messages`);
}
process.exit(failed ? 1 : 0);
