// The agent of the tests: node test/tasks.js BROKER PREFIX GROUP
import kafkajs from "kafkajs";

import { Agent, Answers, DEFERRED } from "afl-stream";

const [broker, prefix, group] = process.argv.slice(2);
const kafka = new kafkajs.Kafka({ clientId: "later", brokers: [broker], logLevel: kafkajs.logLevel.ERROR });
const later = new Answers({ kafka, prefix, group, name: "node-later" });
await later.connect();

class CardDeclined extends Error {
  name = "CardDeclined";
}

const by = "node";
const kinds = {
  plain: ({ number }) => ({ text: String(number), by }),
  long: ({ number }) => ({ text: String(number), by }),
  wrong: () => ({ text: "", by, colour: "red" }),
  declined: () => {
    throw new CardDeclined("no funds");
  },
  flaky: (_payload, { tries }) => {
    if (tries === 1) throw new Error("not yet");
    return { text: `try ${tries}`, by };
  },
  later: (_payload, { ref }) => {
    const kept = JSON.stringify(ref);
    setTimeout(() => later.continueStep(JSON.parse(kept), { text: "later", by }), 50);
    return DEFERRED;
  },
};

const agent = new Agent({
  brokers: [broker],
  prefix,
  group,
  retry: { attempts: 3, backoffMs: 20, on: (error) => !(error instanceof CardDeclined) },
  handlers: { "tasks.Do": (payload, context) => kinds[payload.kind](payload, context) },
});
await agent.start();
process.on("SIGTERM", async () => {
  await agent.stop();
  await later.disconnect();
  process.exit(0);
});
