export { Agent, DEFERRED } from "./agent.js";
export { Answers } from "./answers.js";
export { parseJson, writeJson } from "./json.js";
export { javaPartitioner, murmur2, partitionFor, rangeAssigner } from "./partitions.js";
