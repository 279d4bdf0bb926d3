// How records and partitions are placed: as Java's clients do.

import kafkajs from "kafkajs";

const { AssignerProtocol } = kafkajs;

/** Kafka's murmur2 of a key, as a signed number of 32 bits. */
export function murmur2(key) {
  const data = Buffer.from(key);
  const M = 0x5bd1e995;
  let hash = 0x9747b28c ^ data.length;
  const whole = data.length & ~3;
  for (let at = 0; at < whole; at += 4) {
    let k = Math.imul(data.readInt32LE(at), M);
    k = Math.imul(k ^ (k >>> 24), M);
    hash = Math.imul(hash, M) ^ k;
  }
  const rest = data.length - whole;
  if (rest > 2) hash ^= data[whole + 2] << 16;
  if (rest > 1) hash ^= data[whole + 1] << 8;
  if (rest > 0) hash = Math.imul(hash ^ data[whole], M);
  hash = Math.imul(hash ^ (hash >>> 13), M);
  return hash ^ (hash >>> 15);
}

/** The partition of a key among so many, whichever of them have a leader now. */
export function partitionFor(key, count) {
  return (murmur2(key) & 0x7fffffff) % count;
}

/** A partitioner for kafkajs. Its own was another one before release 2. */
export function javaPartitioner() {
  return ({ partitionMetadata, message }) => partitionFor(message.key, partitionMetadata.length);
}

/** Java's RangeAssignor, which kafkajs lacks: with it a group may have members of other clients. */
export function rangeAssigner({ cluster }) {
  return {
    name: "range",
    version: 0,
    async assign({ members }) {
      const wanting = new Map();
      for (const { memberId, memberMetadata } of members) {
        for (const topic of AssignerProtocol.MemberMetadata.decode(memberMetadata).topics) {
          wanting.set(topic, [...(wanting.get(topic) ?? []), memberId]);
        }
      }
      const assigned = new Map(members.map(({ memberId }) => [memberId, {}]));
      for (const [topic, ids] of wanting) {
        await cluster.addTargetTopic(topic);
        const partitions = cluster.findTopicPartitionMetadata(topic).map((each) => each.partitionId);
        partitions.sort((a, b) => a - b);
        ids.sort();
        const each = Math.floor(partitions.length / ids.length);
        const more = partitions.length % ids.length;
        ids.forEach((id, index) => {
          const start = each * index + Math.min(index, more);
          assigned.get(id)[topic] = partitions.slice(start, start + each + (index < more ? 1 : 0));
        });
      }
      return [...assigned].map(([memberId, assignment]) => ({
        memberId,
        memberAssignment: AssignerProtocol.MemberAssignment.encode({
          version: this.version,
          assignment,
          userData: Buffer.alloc(0),
        }),
      }));
    },
    protocol({ topics }) {
      return {
        name: this.name,
        metadata: AssignerProtocol.MemberMetadata.encode({
          version: this.version,
          topics,
          userData: Buffer.alloc(0),
        }),
      };
    },
  };
}
