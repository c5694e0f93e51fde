// graphile-worker: jobs fetched in batches into a local queue, completed in batches.
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { concurrency, main, pusher, settings } from "./push.mjs";

const preset = {
  worker: {
    connectionString: "postgresql://", // the rest is in PGHOST, PGUSER and PGDATABASE
    concurrentJobs: concurrency,
    maxPoolSize: settings.pool,
    localQueue: { size: settings.local_queue },
    completeJobBatchDelay: settings.complete_delay_ms,
    failJobBatchDelay: settings.complete_delay_ms,
    // A line per job, or per failed attempt, would be measured too.
    logger: new Logger(() => (level, message) => {
      if (level === "error" && !message.startsWith("Failed task")) console.error(message);
    }),
  },
};

await main({
  setup: () => runMigrations({ preset }),

  async enqueue(timed) {
    const utils = await makeWorkerUtils({ preset });
    // `add_jobs` in SQL: the same bulk insert as `addJobs`, without sending every job back.
    const sql = `select count(*) from graphile_worker.add_jobs(array(
      select row('push', json_build_object('to', token), null, null, null, null, null, null)::graphile_worker.job_spec
      from unnest($1::text[]) token))`;
    const api = (tokens) => utils.addJobs(tokens.map((to) => ({ identifier: "push", payload: { to } })));
    const bulk = (tokens) => utils.withPgClient((client) => client.query(sql, [tokens]));
    const seconds = await timed(settings.enqueue === "sql" ? bulk : api);
    await utils.release();
    return seconds;
  },

  async work(ready) {
    const push = pusher();
    await ready();
    const runner = await run({ preset, noHandleSignals: true, taskList: { push: ({ to }) => push(to) } });
    await runner.promise;
  },
});
