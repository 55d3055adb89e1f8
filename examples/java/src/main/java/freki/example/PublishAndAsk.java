package freki.example;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Publishes a document, waits for its receipt, asks a question, prints the answer. */
public final class PublishAndAsk {

  private static final String TENANT = "default";
  private static final String DOCUMENT = "examples/java";
  private static final String TEXT = "Der Bauantrag ist bei der Gemeinde einzureichen. Java hat ihn veröffentlicht.";
  private static final String QUESTION = "Wo ist der Bauantrag einzureichen?";
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  /** Not System.out itself: that takes the terminal's encoding, and texts have umlauts. */
  private static final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  private PublishAndAsk() {}

  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 2) {
      System.err.println("usage: java -jar freki-example.jar BOOTSTRAP CONTRACTS");
      System.err.println("BOOTSTRAP: the broker's address; CONTRACTS: where `freki schemas export` wrote to");
      System.exit(2);
    }
    String bootstrap = arguments[0];
    Path contracts = Path.of(arguments[1]);
    // The default partitioner is murmur2, as Freki's: one document's records meet in one partition.
    Map<String, Object> settings = Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer())) {
      publish(producer, bootstrap, contracts);
      ask(producer, bootstrap, contracts);
    }
  }

  private static void publish(KafkaProducer<String, byte[]> producer, String bootstrap, Path contracts)
      throws Exception {
    Contract changes = new Contract(contracts.resolve("DocumentChange.avsc"));
    Contract outcomes = new Contract(contracts.resolve("IndexOutcome.avsc"));
    long now = System.currentTimeMillis();
    GenericRecord change =
        changes
            .record()
            .set("tenant", TENANT)
            .set("document_id", DOCUMENT)
            .set("operation", changes.symbol("operation", "UPSERT"))
            // Must grow with every change of the document.
            .set("version", now)
            .set("occurred_at", now)
            .set("principals", List.of("everyone"))
            .set("content", TEXT)
            .build();
    String key = TENANT + "/" + DOCUMENT;
    // The end of `outcomes` is noted before the change is sent, so that its receipt cannot be missed.
    try (Tail receipts = new Tail(bootstrap, "freki.outcomes.v1", outcomes)) {
      producer.send(new ProducerRecord<>("freki.documents.v1", key, changes.encode(change))).get();
      GenericRecord receipt = receipts.await(key, outcome -> isReceipt(outcome, now), PATIENCE);
      out.println("receipt: " + receipt.get("status") + " " + receipt.get("reason"));
    }
  }

  /** A change that Freki cannot decode has no version that it knew: its receipt says 0. */
  private static boolean isReceipt(GenericRecord outcome, long version) {
    boolean undecodable = outcome.get("version").equals(0L) && outcome.get("status").toString().equals("REJECTED");
    return undecodable || outcome.get("version").equals(version);
  }

  private static void ask(KafkaProducer<String, byte[]> producer, String bootstrap, Path contracts) throws Exception {
    Contract queries = new Contract(contracts.resolve("ContextQuery.avsc"));
    Contract results = new Contract(contracts.resolve("ContextResult.avsc"));
    String id = UUID.randomUUID().toString();
    GenericRecord query =
        queries
            .record()
            .set("query_id", id)
            .set("tenant", TENANT)
            .set("text", QUESTION)
            .set("asked_at", System.currentTimeMillis())
            .set("deadline_ms", PATIENCE.toMillis())
            .build();
    try (Tail answers = new Tail(bootstrap, "freki.contexts.v1", results)) {
      producer.send(new ProducerRecord<>("freki.queries.v1", id, queries.encode(query))).get();
      print(answers.await(id, any -> true, PATIENCE));
    }
  }

  private static void print(GenericRecord result) {
    out.println("answer: " + result.get("status"));
    for (Object each : (List<?>) result.get("hits")) {
      GenericRecord hit = (GenericRecord) each;
      out.println(hit.get("rank") + ". " + hit.get("document_id") + ": " + hit.get("text"));
    }
    for (Object each : (List<?>) result.get("notices")) {
      out.println("notice: " + ((GenericRecord) each).get("message"));
    }
  }
}
