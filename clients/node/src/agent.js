// An agent: consumes the topics of facets, runs their handlers, answers, and only then moves its offsets.

import { hostname } from "node:os";
import kafkajs from "kafkajs";

import { Answers } from "./answers.js";
import { defaultBrokers, defaultPrefix, plainLog } from "./defaults.js";
import { mismatch, NotYetReadable, readEvent, refOf, refOfHeaders, Unreadable } from "./events.js";
import { rangeAssigner } from "./partitions.js";

/** What a handler returns when the answer comes later, by `Answers` and `context.ref`. */
export const DEFERRED = Symbol("deferred");
const HEARTBEAT_MS = 1_000;

export class Agent {
  #options;
  #answers;
  #consumers = [];
  #said = new Set();

  constructor(options) {
    const { brokers, name = `node-${hostname()}-${process.pid}`, prefix = defaultPrefix(), handlers, ...more } = options;
    if (!handlers || !Object.keys(handlers).length) throw new Error("an agent needs handlers: { 'ns.Facet': handler }");
    for (const [facet, handler] of Object.entries(handlers)) {
      if (typeof handler !== "function") throw new Error(`the handler of ${facet} is a ${typeof handler}, not a function`);
    }
    const log = more.log ?? console;
    const known = brokers?.length ? brokers : defaultBrokers();
    const logging = { logLevel: kafkajs.logLevel.ERROR, logCreator: plainLog((text) => log.error(text)) };
    const kafka = more.kafka ?? new kafkajs.Kafka({ clientId: name, brokers: known, retry: { retries: 10 }, ...logging });
    this.#options = { retry: { attempts: 1 }, concurrency: 4, ...more, log, name, prefix, handlers, kafka };
    this.#answers = new Map();
  }

  /** Joins a group for each facet, or the one that was given, and returns when each has its topics. */
  async start() {
    const { handlers, group, prefix } = this.#options;
    const groups = new Map();
    for (const facet of Object.keys(handlers)) {
      const id = group ?? `${prefix}agent.${facet}`;
      groups.set(id, [...(groups.get(id) ?? []), `${prefix}events.${facet}`]);
    }
    for (const [id, topics] of groups) {
      await this.#join(id, topics);
      this.#options.log.info?.(`${this.#options.name} reads ${topics.join(", ")} in the group ${id}`);
    }
  }

  /** Ends: what is handled now is answered, and the offsets are committed. */
  async stop() {
    await Promise.all(this.#consumers.map((consumer) => consumer.disconnect()));
    await Promise.all([...this.#answers.values()].map((answers) => answers.disconnect()));
  }

  async #join(group, topics) {
    const { kafka, prefix, name, concurrency, log } = this.#options;
    const answers = new Answers({ kafka, prefix, name, group });
    await answers.connect();
    this.#answers.set(group, answers);
    const consumer = kafka.consumer({
      groupId: group,
      partitionAssigners: [rangeAssigner],
      sessionTimeout: 10_000,
      heartbeatInterval: HEARTBEAT_MS,
      rebalanceTimeout: 60_000,
      allowAutoTopicCreation: false,
    });
    this.#consumers.push(consumer);
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      if (payload.error?.cause instanceof NotYetReadable) return;
      const why = String(payload.error?.message);
      const remedy = /inconsistent group protocol/i.test(why) ? "; members of other clients need the assignor range" : "";
      log.error(`group ${group}: ${why}${remedy}`);
    });
    await consumer.connect();
    try {
      await consumer.subscribe({ topics, fromBeginning: true });
    } catch (error) {
      if (error.type !== "UNKNOWN_TOPIC_OR_PARTITION") throw error;
      const names = topics.join(", ");
      const causes = `is each facet's name right, and the prefix "${prefix}"? "afl-stream topics apply PROGRAM.afl" makes topics`;
      throw new Error(`no topic ${topics.length > 1 ? `has one of the names ${names}` : names}: ${causes}`, { cause: error });
    }
    await consumer.run({
      autoCommitInterval: 500,
      autoCommitThreshold: 100,
      partitionsConsumedConcurrently: concurrency,
      eachMessage: async ({ topic, partition, message, heartbeat }) => {
        // A handler may run for longer than a session.
        const beat = setInterval(() => heartbeat().catch(() => {}), HEARTBEAT_MS);
        try {
          await this.#handle(answers, group, topic, partition, message);
        } finally {
          clearInterval(beat);
        }
      },
    });
  }

  /** Says what is tried again and again only once. */
  #sayOnce(text) {
    if (this.#said.has(text)) return;
    this.#said.add(text);
    this.#options.log.error(text);
  }

  async #handle(answers, group, topic, partition, message) {
    const headers = Object.fromEntries(Object.entries(message.headers ?? {}).map(([name, value]) => [name, String(value)]));
    const { prefix } = this.#options;
    let event;
    try {
      event = readEvent(message.value, topic.slice(`${prefix}events.`.length));
    } catch (error) {
      if (error instanceof NotYetReadable) {
        error.message = `${topic}[${partition}]@${message.offset}: ${error.message}`;
        this.#sayOnce(error.message);
      }
      if (!(error instanceof Unreadable)) throw error;
      await this.#giveUp(answers, group, topic, partition, message, headers, error);
      return;
    }
    const ref = refOf(event);
    const handler = this.#options.handlers[event.event_type];
    if (handler === undefined) {
      await answers.failStep(ref, { type: "NoHandler", message: `no handler for facet ${event.event_type}` }, headers);
      return;
    }
    await this.#run(answers, event, ref, handler, headers);
  }

  async #run(answers, event, ref, handler, headers) {
    const { attempts = 1, backoffMs = 500, on = () => true } = this.#options.retry;
    for (let tries = 1; ; tries++) {
      const told = tries > 1 ? { ...headers, afl_tries: String(tries) } : headers;
      let result;
      try {
        result = await handler(event.payload, this.#context(answers, event, ref, headers, tries));
      } catch (error) {
        const wait = backoffMs * 2 ** (tries - 1);
        const isLate = event.deadline !== undefined && Date.now() + wait >= event.deadline;
        if (tries >= attempts || isLate || !on(error)) {
          await answers.failStep(ref, error, told);
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, wait));
        continue;
      }
      if (result === DEFERRED) return;
      const given = result ?? {};
      if (typeof given !== "object" || Array.isArray(given)) {
        const found = Array.isArray(given) ? "an array" : `a ${typeof given}`;
        await answers.failStep(ref, { type: "BadResult", message: `a result is an object of returns, not ${found}` }, told);
        return;
      }
      const wrong = mismatch(event, given);
      if (wrong !== null) await answers.failStep(ref, { type: "ResultMismatch", message: wrong }, told);
      else await answers.continueStep(ref, given, told);
      return;
    }
  }

  #context(answers, event, ref, headers, tries) {
    const left = event.deadline === undefined ? undefined : Math.max(0, event.deadline - Date.now());
    return {
      facet: event.event_type,
      stepId: event.step_id,
      workflowId: event.workflow_id,
      eventId: event.id,
      attempt: event.attempt,
      deadline: event.deadline,
      signal: left === undefined ? new AbortController().signal : AbortSignal.timeout(left),
      tries,
      headers,
      ref,
      update: (partial) => answers.updateStep(ref, partial, headers),
    };
  }

  async #giveUp(answers, group, topic, partition, message, headers, error) {
    const { prefix, name } = this.#options;
    const said = { type: "UnreadableEvent", message: error.message };
    const why = {
      topic, partition: String(partition), offset: message.offset, timestamp: message.timestamp,
      reason: error.reason, error_class: error.name, error: error.message, time: new Date().toISOString(),
      group, agent: name,
    };
    if (message.key !== null) why.key = message.key;
    await answers.deliver(`${prefix}dlq.${topic.startsWith(prefix) ? topic.slice(prefix.length) : topic}`, {
      key: message.key,
      value: message.value,
      headers: { ...message.headers, ...Object.fromEntries(Object.entries(why).map(([key, value]) => [`afl.dlq.${key}`, value])) },
    });
    const ref = refOfHeaders(headers);
    if (ref !== null) await answers.failStep(ref, said, headers);
  }
}
