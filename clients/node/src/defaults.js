// What the environment says where the options do not, and what kafkajs has to say, as lines for people.

const OFTEN_MS = 30_000;
const TOLD = /^(BrokerPool|Runner|Connection: Response|Consumer: (Crash|Restarting))/;

/** The brokers of AFL_KAFKA_BOOTSTRAP, or the one of this machine. */
export function defaultBrokers() {
  return (process.env.AFL_KAFKA_BOOTSTRAP || "localhost:9092").split(",");
}

/** The prefix of AFL_PREFIX, or `afl.`. It may be empty. */
export function defaultPrefix() {
  return process.env.AFL_PREFIX ?? "afl.";
}

/** Logs for kafkajs: a line for each trouble, and again when it lasts. What it tries again by itself is no trouble yet. */
export function plainLog(say) {
  const said = new Map();
  return () =>
    ({ namespace, log: { message, broker, groupId } }) => {
      // Of what a record or a broker refuses, the agent itself tells.
      if (TOLD.test(`${namespace}: ${message}`)) return;
      const text = `kafkajs: ${message}${broker ? `, broker ${broker}` : ""}${groupId ? `, group ${groupId}` : ""}`;
      if (Date.now() - (said.get(text) ?? -OFTEN_MS) < OFTEN_MS) return;
      said.set(text, Date.now());
      say(text);
    };
}
