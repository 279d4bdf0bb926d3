// node examples/charge.js localhost:9092
import { Agent } from "afl-stream";

class CardDeclined extends Error {
  name = "CardDeclined"; // what a program catches
}

const agent = new Agent({
  brokers: process.argv.slice(2),
  retry: { attempts: 3, backoffMs: 200, on: (error) => !(error instanceof CardDeclined) },
  handlers: {
    "shop.Charge": async ({ order }, context) => {
      if (order === "stolen") throw new CardDeclined("no funds");
      return { receipt: `node-${order}-${context.attempt}` };
    },
  },
});
await agent.start();
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => agent.stop());
