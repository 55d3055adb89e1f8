package freki.example;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * All partitions of a topic, from where they ended when this was opened.
 *
 * <p>Partitions are assigned, not subscribed to: there is no group that would have to form first, and nothing to commit.
 */
final class Tail implements AutoCloseable {

  private static final Duration POLL = Duration.ofMillis(500);

  private final String topic;
  private final Contract contract;
  private final KafkaConsumer<String, byte[]> consumer;

  Tail(String bootstrap, String topic, Contract contract) {
    this.topic = topic;
    this.contract = contract;
    consumer =
        new KafkaConsumer<>(
            Map.of(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap),
            new StringDeserializer(),
            new ByteArrayDeserializer());
    List<TopicPartition> partitions =
        consumer.partitionsFor(topic).stream().map(each -> new TopicPartition(topic, each.partition())).toList();
    consumer.assign(partitions);
    consumer.seekToEnd(partitions);
    // Seeking is lazy. To ask for the position makes it happen now, before anything is sent.
    partitions.forEach(consumer::position);
  }

  /** Waits for a record with this key that fits. */
  GenericRecord await(String key, Predicate<GenericRecord> fits, Duration patience) throws IOException {
    Instant deadline = Instant.now().plus(patience);
    while (Instant.now().isBefore(deadline)) {
      for (ConsumerRecord<String, byte[]> record : consumer.poll(POLL)) {
        // The keys of others are skipped before their values are decoded.
        if (key.equals(record.key()) && record.value() != null) {
          GenericRecord value = contract.decode(record.value());
          if (fits.test(value)) {
            return value;
          }
        }
      }
    }
    throw new IllegalStateException("nothing came for " + key + " on " + topic + " within " + patience);
  }

  @Override
  public void close() {
    consumer.close();
  }
}
