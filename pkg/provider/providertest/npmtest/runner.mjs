// Reads {snippet, input} from standard input, runs the snippet as the body of
// an async function of (input, require, load), and writes {output} or {error}.
import { createRequire } from "node:module";

// What a library writes to the console must not mix with the answer.
console.log = console.info = console.debug = console.error;

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { snippet, input } = JSON.parse(Buffer.concat(chunks).toString("utf8"));

const AsyncFunction = (async () => {}).constructor;
let answer;
try {
  const run = new AsyncFunction("input", "require", "load", snippet);
  const output = await run(input, createRequire(import.meta.url), (name) => import(name));
  answer = { output: output === undefined ? null : output };
} catch (e) {
  answer = { error: `${(e && e.name) || "Error"}: ${(e && e.message) || e}` };
}
process.stdout.write(JSON.stringify(answer));
