// pg-boss: several workers in one process, each fetching, calling and completing a batch at a time.
import { PgBoss } from "pg-boss";
import { concurrency, main, pusher, settings } from "./push.mjs";

const QUEUE = "push";
const workers = Math.max(1, Math.round(concurrency / settings.batch_size));

const connect = async (options = {}) => {
  const boss = new PgBoss({ connectionString: "postgresql://", max: settings.pool, ...options });
  boss.on("error", console.error);
  await boss.start();
  return boss;
};

await main({
  async setup() {
    const boss = await connect();
    await boss.createQueue(QUEUE, { partition: settings.partition, retryLimit: 10, retryDelay: 1 });
    await boss.stop();
  },

  async enqueue(timed) {
    const boss = await connect();
    const seconds = await timed((tokens) => boss.insert(QUEUE, tokens.map((to) => ({ data: { to } }))));
    await boss.stop();
    return seconds;
  },

  async work(ready) {
    const boss = await connect();
    const push = pusher();
    const options = {
      localConcurrency: workers,
      batchSize: settings.batch_size,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
      perJobResults: true, // else one failure would repeat a whole batch
    };
    await ready();
    await boss.work(QUEUE, options, (batch) =>
      Promise.all(
        batch.map(({ id, data }) =>
          push(data.to).then(
            () => ({ id, status: "completed" }),
            (error) => ({ id, status: "failed", output: { message: error.message } }),
          ),
        ),
      ),
    );
  },
});
