// What the Node peers share: how `run` talks to them, and one call of the push provider.
import { createInterface } from "node:readline";
import { Pool } from "undici";

export const jobs = Number(process.env.BENCH_JOBS);
export const concurrency = Number(process.env.BENCH_CONCURRENCY);
export const settings = JSON.parse(process.env.BENCH_SETTINGS);

// How many jobs one bulk insert makes.
const CHUNK = 10_000;
// The text is the same for everybody: a job carries the token alone, which is kinder to a queue than repeating the text.
const NOTIFICATION = JSON.stringify({
  broadcast_id: "peers",
  title: "The beacon is lit",
  body: "Fire on the southern ridge: five fires, all the way to the capital.",
  data: {},
});

/** Runs the phase that the command line asks for. `work` gets a function that resolves when the work may begin. */
export async function main({ setup, enqueue, work }) {
  const phase = process.argv[2];
  if (phase === "setup") await setup();
  if (phase === "enqueue") {
    const tokens = Array.from({ length: jobs }, (_, i) => `good-${i}`);
    const chunks = [];
    for (let i = 0; i < jobs; i += CHUNK) chunks.push(tokens.slice(i, i + CHUNK));
    const seconds = await enqueue(async (insert) => {
      const start = performance.now();
      for (const chunk of chunks) await insert(chunk);
      return (performance.now() - start) / 1000;
    });
    console.log(JSON.stringify({ seconds }));
  }
  if (phase === "work") {
    const input = createInterface({ input: process.stdin });
    // The end of input means: all is done, or `run` is gone. What is locked then dies with the cluster.
    input.on("close", () => process.exit(0));
    const go = new Promise((resolve) => input.once("line", resolve));
    await work(async () => {
      console.log("ready");
      await go;
    });
  }
}

/** A function that pushes to one token, over as many connections as there may be calls. Throws unless accepted. */
export function pusher() {
  const pool = new Pool(process.env.BENCH_SIM, { connections: concurrency, pipelining: 1 });
  return (token) => {
    const request = {
      method: "POST",
      path: "/push",
      headers: { "content-type": "application/json", "idempotency-key": `peers/${token}` },
      body: `{"to":${JSON.stringify(token)},"notification":${NOTIFICATION}}`,
    };
    return new Promise((resolve, reject) => pool.dispatch(request, new Answer(resolve, reject)));
  };
}

/** Reads an answer for its status alone: `dispatch` is what undici's own benchmarks find fastest. */
class Answer {
  constructor(resolve, reject) {
    this.resolve = resolve;
    this.reject = reject;
  }
  onRequestStart() {}
  onResponseStart(_, status) {
    this.status = status;
  }
  onResponseData() {}
  onResponseEnd() {
    if (this.status === 200) this.resolve();
    else this.reject(new Error(`the provider answered ${this.status}`));
  }
  onResponseError(_, error) {
    this.reject(error);
  }
}
