// Answers to steps: StepContinue, StepFailed and StepUpdate, as JSON on the control topic.

import { defaultPrefix } from "./defaults.js";
import { writeJson } from "./json.js";
import { javaPartitioner } from "./partitions.js";

const TRACE_HEADERS = ["traceparent", "tracestate"];

/** Sends answers. A reference names the step: `context.ref`, kept as JSON, or only `{ step_id }`. */
export class Answers {
  #producer;
  #sender;
  #topic;

  constructor({ kafka, prefix = defaultPrefix(), name, group }) {
    this.#producer = kafka.producer({
      createPartitioner: javaPartitioner,
      idempotent: true,
      maxInFlightRequests: 1,
      allowAutoTopicCreation: false,
    });
    this.#sender = { agent: name, group };
    this.#topic = `${prefix}control`;
  }

  async connect() {
    await this.#producer.connect();
  }

  async disconnect() {
    await this.#producer.disconnect();
  }

  /** The step goes on with this result. */
  async continueStep(ref, result = {}, headers = {}) {
    await this.#send(ref, { result }, headers);
  }

  /** The step fails with the type and message of this error, which the program may catch. */
  async failStep(ref, error, headers = {}) {
    const type = String(error?.type ?? error?.name ?? "Error");
    await this.#send(ref, { error: { type, message: String(error?.message ?? error) } }, headers);
  }

  /** The step waits on, and has these returns already. */
  async updateStep(ref, partial, headers = {}) {
    await this.#send(ref, { partial }, headers);
  }

  /** Sends any record, and returns when it is acknowledged. */
  async deliver(topic, record) {
    await this.#producer.send({ topic, acks: -1, messages: [record] });
  }

  async #send(ref, entries, headers) {
    const { step_id, workflow_id = String(step_id).split(":")[0], event_id, attempt, answer_token } = ref;
    const named = { step_id, workflow_id, event_id, attempt, answer_token, ...this.#sender };
    const passed = Object.fromEntries(TRACE_HEADERS.filter((name) => headers[name]).map((name) => [name, headers[name]]));
    if (headers.afl_tries) passed.afl_tries = headers.afl_tries;
    await this.deliver(this.#topic, {
      key: workflow_id,
      value: writeJson({ ...entries, ...named }),
      headers: { "content-type": "application/json", ...passed },
    });
  }
}
