import { Agent, Answers, DEFERRED, type Handler, type StepRef } from "afl-stream";
import { Kafka } from "kafkajs";

const charge: Handler<{ order: string }> = async ({ order }, context) => {
  await context.update({ note: order });
  return context.attempt > 1 ? DEFERRED : { receipt: order };
};
// @ts-expect-error a result is an object of returns
const wrong: Handler = () => "receipt";
const agent = new Agent({ brokers: ["localhost:9092"], handlers: { "shop.Charge": charge, "shop.Ship": wrong } });
const ref: StepRef = { step_id: "order-17:5f3a" };
void new Answers({ kafka: new Kafka({ brokers: [] }) }).continueStep(ref, { receipt: 2n ** 60n });
void agent.stop();
