// Events as JSON: what a record has to be, and why it is not one.

import { parseJson } from "./json.js";

const KNOWN_VERSIONS = { workflow_version: 1, step_schema_version: 1, runtime_version: 0 };
const TEXTS = ["id", "workflow_id", "step_id", "event_type"];

/** A record that can never be an event; `reason` is the code of its dead letter. */
export class Unreadable extends Error {
  name = "Unreadable";

  constructor(reason, message) {
    super(message);
    this.reason = reason;
  }
}

/** A record that another setting or release can read: its partition waits. */
export class NotYetReadable extends Error {
  name = "NotYetReadable";
}

/** The event in a record's value, on the topic of this facet. Throws Unreadable and NotYetReadable. */
export function readEvent(value, facet = "FACET") {
  if (value === null) throw new Unreadable("null_value", "the record has no value");
  if (value.length === 0) throw new Unreadable("empty_value", "the record's value has no bytes");
  if (value[0] === 0 || (value[0] === 0xc3 && value[1] === 1)) {
    const remedy = `give the evaluators wire.facet_events = "${facet}=json"`;
    throw new NotYetReadable(`the event is Avro: ${remedy}; what is Avro already, an agent in Python answers`);
  }
  let event;
  try {
    event = parseJson(value.toString("utf8"));
  } catch (error) {
    throw new Unreadable("bad_json", error.message);
  }
  if (event?.specversion && event.data) event = event.data;
  const isObject = (one) => typeof one === "object" && one !== null && !Array.isArray(one);
  if (!isObject(event)) throw new Unreadable("bad_json", "a record is a JSON object");
  for (const [name, known] of Object.entries(KNOWN_VERSIONS)) {
    if (Number.parseInt(event[name], 10) > known) {
      throw new NotYetReadable(`${name} is ${event[name]}, and this client knows ${known}: upgrade it`);
    }
  }
  for (const name of [...TEXTS, "payload", "attempt"]) {
    if (event[name] === undefined) throw new Unreadable("missing_field", `Event without ${name}`);
  }
  for (const name of TEXTS) {
    if (typeof event[name] !== "string") throw new Unreadable("wrong_type", `Event.${name} is no String`);
  }
  if (!Number.isSafeInteger(event.attempt)) throw new Unreadable("wrong_type", "Event.attempt is no Long");
  if (!isObject(event.payload)) throw new Unreadable("wrong_type", "Event.payload is no map of parameters");
  return event;
}

/** What names an event's step in answers. */
export function refOf(event) {
  const { step_id, workflow_id, id, attempt, answer_token } = event;
  return { step_id, workflow_id, event_id: id, attempt, answer_token };
}

/** The step that a record's headers name, though its value cannot be read; null where they do not. */
export function refOfHeaders(headers) {
  let named = {};
  try {
    named = JSON.parse(headers.afl ?? "{}");
  } catch {
    // Headers of their own may say it.
  }
  const event_id = headers.ce_id ?? named.id;
  const step_id = headers.ce_subject ?? named.subject;
  const attempt = Number(headers.afl_attempt ?? named.attempt);
  if (!event_id || event_id !== `${step_id}#${attempt}`) return null;
  return { step_id, workflow_id: step_id.split(":")[0], event_id, attempt };
}

/** Why a result has not the returns that the facet declares; null where it has. */
export function mismatch(event, result) {
  if (!event.returns) return null;
  const { required, optional = [] } = event.returns;
  const unknown = Object.keys(result).filter((name) => !required.includes(name) && !optional.includes(name));
  if (!unknown.length) return null;
  const declared = [...required, ...optional].join(", ") || "no returns";
  const facet = event.event_type;
  return `the result of ${facet} has ${unknown.join(", ")}, which ${facet} does not declare; it declares ${declared}`;
}
