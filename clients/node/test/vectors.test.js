import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { murmur2, parseJson, partitionFor, writeJson } from "afl-stream";

const { vectors } = JSON.parse(readFileSync(new URL("../../../schemas/partitioner_vectors.json", import.meta.url)));

test("keys are placed as Kafka's own tests place them", () => {
  assert.ok(vectors.length > 6);
  for (const { key, murmur2: hash, partition_of_6, partition_of_12 } of vectors) {
    assert.equal(murmur2(key), hash, key);
    assert.equal(partitionFor(key, 6), partition_of_6, key);
    assert.equal(partitionFor(key, 12), partition_of_12, key);
  }
});

test("a Long keeps all of its digits, and texts that look like one stay texts", () => {
  const text = '{"max":9223372036854775807,"min":-9223372036854775808,"small":3,"text":"9223372036854775807","d":1.5e300}';
  const read = parseJson(text);
  assert.equal(read.max, 9223372036854775807n);
  assert.equal(read.small, 3);
  assert.equal(read.text, "9223372036854775807");
  assert.equal(writeJson(read), text.replace("1.5e300", "1.5e+300"));
});
