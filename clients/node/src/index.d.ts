import type { ICustomPartitioner, Kafka, PartitionAssigner } from "kafkajs";

/** A value of AFL. A Long beyond 2^53 is a bigint. */
export type Value = null | boolean | number | bigint | string | Value[] | { [key: string]: Value };
export type Values = { [name: string]: Value };

/** What names the step of an answer. `step_id` is enough; all of it answers for one attempt, with its token. */
export interface StepRef {
  step_id: string;
  workflow_id?: string;
  event_id?: string;
  attempt?: number;
  answer_token?: string;
}

export interface HandlerContext {
  readonly facet: string;
  readonly stepId: string;
  readonly workflowId: string;
  /** The key for idempotency: the same work asked twice has the same id. */
  readonly eventId: string;
  readonly attempt: number;
  /** When the answer has to be there, in ms since the epoch. */
  readonly deadline: number | undefined;
  /** Aborted at the deadline. */
  readonly signal: AbortSignal;
  /** How often the handler has run for this event here. */
  readonly tries: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Keep it, as JSON, to answer later. */
  readonly ref: StepRef;
  update(partial: Values): Promise<void>;
}

export declare const DEFERRED: unique symbol;
export type Result = Values | undefined | void | typeof DEFERRED;
/** A handler's payload has what the facet declares: say its type. */
export type Handler<P extends object = Values> = (payload: P, context: HandlerContext) => Result | Promise<Result>;

export interface RetryPolicy {
  attempts?: number;
  /** The first wait; each next one is twice as long. */
  backoffMs?: number;
  /** Whether an error is worth another try. */
  on?: (error: unknown) => boolean;
}

export interface AgentOptions {
  /** By default those of AFL_KAFKA_BOOTSTRAP, or localhost:9092. */
  brokers?: string[];
  /** In place of `brokers`: a client with security settings. */
  kafka?: Kafka;
  handlers: Record<string, Handler<any>>;
  name?: string;
  /** By default AFL_PREFIX, or `afl.`. */
  prefix?: string;
  /** One group for all facets, in place of `{prefix}agent.{facet}` for each. */
  group?: string;
  retry?: RetryPolicy;
  /** Partitions that are handled at once. */
  concurrency?: number;
  /** What goes wrong, and, where it takes that too, what the agent reads. By default the console. */
  log?: { error(text: string): void; info?(text: string): void };
}

export declare class Agent {
  constructor(options: AgentOptions);
  start(): Promise<void>;
  stop(): Promise<void>;
}

export declare class Answers {
  constructor(options: { kafka: Kafka; prefix?: string; name?: string; group?: string });
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  continueStep(ref: StepRef, result?: Values, headers?: Record<string, string>): Promise<void>;
  failStep(ref: StepRef, error: Error | { type: string; message: string }, headers?: Record<string, string>): Promise<void>;
  updateStep(ref: StepRef, partial: Values, headers?: Record<string, string>): Promise<void>;
}

export declare function parseJson(text: string): Value;
export declare function writeJson(value: unknown): string;
export declare function murmur2(key: string | Uint8Array): number;
export declare function partitionFor(key: string | Uint8Array, count: number): number;
export declare const javaPartitioner: ICustomPartitioner;
export declare const rangeAssigner: PartitionAssigner;
