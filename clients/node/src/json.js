// JSON whose whole numbers of 64 bits stay exact: those beyond 2^53 are BigInts.

const MARK = "\u0000long:";
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g;
const MARKED = /"\\u0000long:(-?\d+)"/g;

export function parseJson(text) {
  const marked = text.replace(TOKENS, (token) =>
    token[0] === '"' || Number.isSafeInteger(Number(token)) ? token : JSON.stringify(MARK + token),
  );
  return JSON.parse(marked, (_key, value) =>
    typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  );
}

export function writeJson(value) {
  const text = JSON.stringify(value, (_key, item) => (typeof item === "bigint" ? MARK + item : item));
  return text.replace(MARKED, "$1");
}
