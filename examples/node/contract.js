// One record of the topics, to bytes and back: Avro's single-object encoding.
import { readFileSync } from "node:fs";
import avro from "avsc";

const MARK = Buffer.from([0xc3, 0x01]);
const HEADER_BYTES = 10;

export class Contract {
  /** Read a contract that `freki schemas export` wrote. */
  constructor(file) {
    this.type = avro.Type.forSchema(JSON.parse(readFileSync(file, "utf8")));
    // avsc gives the schema in Avro's parsing canonical form, but not the fingerprint of it.
    this.header = Buffer.concat([MARK, fingerprint(JSON.stringify(this.type.schema()))]);
  }

  /** Fields that are left out have their defaults. */
  encode(record) {
    return Buffer.concat([this.header, this.type.toBuffer(record)]);
  }

  decode(value) {
    const header = value.subarray(0, HEADER_BYTES);
    if (!header.equals(this.header)) {
      throw new Error(`written with another contract than this one: ${header.toString("hex")}`);
    }
    return this.type.fromBuffer(value.subarray(HEADER_BYTES));
  }
}

/** Give CRC-64-AVRO as the 8 bytes of the header, as the Avro specification writes it, bit by bit. */
export function fingerprint(text) {
  const empty = 0xc15d213aa4d7a795n;
  let crc = empty;
  for (const byte of Buffer.from(text, "utf8")) {
    crc ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit++) {
      crc = (crc >> 1n) ^ (crc & 1n ? empty : 0n);
    }
  }
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(crc);
  return bytes;
}
