package freki.example;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.avro.message.BinaryMessageDecoder;
import org.apache.avro.message.BinaryMessageEncoder;

/**
 * One record of the topics, to bytes and back.
 *
 * <p>Avro's "binary messages" are its single-object encoding: C3 01, the fingerprint of the schema, the Avro binary.
 */
final class Contract {

  private final Schema schema;
  private final BinaryMessageEncoder<GenericRecord> encoder;
  private final BinaryMessageDecoder<GenericRecord> decoder;

  /** Reads a contract that {@code freki schemas export} wrote. */
  Contract(Path file) throws IOException {
    schema = new Schema.Parser().parse(file.toFile());
    // A model without conversions: times stay numbers, milliseconds since 1970.
    GenericData plain = new GenericData();
    encoder = new BinaryMessageEncoder<>(plain, schema);
    decoder = new BinaryMessageDecoder<>(plain, schema);
    // To read what other releases of Freki wrote, add their contracts: decoder.addSchema(...).
  }

  /** Starts a record whose fields have their defaults. */
  GenericRecordBuilder record() {
    return new GenericRecordBuilder(schema);
  }

  /** Gives the symbol of an enum of this record. */
  GenericData.EnumSymbol symbol(String field, String symbol) {
    return new GenericData.EnumSymbol(schema.getField(field).schema(), symbol);
  }

  byte[] encode(GenericRecord record) throws IOException {
    ByteBuffer bytes = encoder.encode(record);
    byte[] value = new byte[bytes.remaining()];
    bytes.get(value);
    return value;
  }

  GenericRecord decode(byte[] value) throws IOException {
    return decoder.decode(value);
  }
}
