// All partitions of a topic, from where they ended when this was opened.
import { randomUUID } from "node:crypto";

export class Tail {
  /** Note where each partition ends: what is sent from now on will be read. */
  static async open(kafka, admin, topic, contract) {
    const ends = await admin.fetchTopicOffsets(topic);
    // kafkajs cannot read without a group: one of our own, so that we get all partitions; nothing is committed.
    const group = `example-${randomUUID()}`;
    const consumer = kafka.consumer({ groupId: group });
    await consumer.connect();
    await consumer.subscribe({ topic });
    return new Tail(admin, topic, contract, ends, group, consumer);
  }

  constructor(admin, topic, contract, ends, group, consumer) {
    Object.assign(this, { admin, topic, contract, ends, group, consumer });
  }

  /** Wait for a record with this key that fits. */
  async await(key, fits, patienceMs) {
    let late;
    try {
      return await new Promise((resolve, reject) => {
        late = setTimeout(() => reject(new Error(`nothing came for ${key} on ${this.topic}`)), patienceMs);
        const eachMessage = async ({ message }) => {
          // The keys of others are skipped before their values are decoded.
          if (message.key?.toString() !== key || message.value === null) return;
          try {
            const value = this.contract.decode(message.value);
            if (fits(value)) resolve(value);
          } catch (error) {
            reject(error);
          }
        };
        this.consumer.run({ autoCommit: false, eachMessage }).catch(reject);
        for (const { partition, high } of this.ends) {
          this.consumer.seek({ topic: this.topic, partition, offset: high });
        }
      });
    } finally {
      clearTimeout(late);
    }
  }

  async close() {
    await this.consumer.disconnect();
    await this.admin.deleteGroups([this.group]);
  }
}
