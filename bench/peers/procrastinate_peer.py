"""procrastinate: async workers, many jobs at a time in each."""

import asyncio
import logging
import os
import sys
import threading
import time

import procrastinate

import push

# Every job is several lines at level INFO, which would be measured too.
logging.basicConfig(level=logging.ERROR)
pool = push.SETTINGS["pool"]
app = procrastinate.App(connector=procrastinate.PsycopgConnector(min_size=pool, max_size=pool))


@app.task(name="push", queue="push", retry=procrastinate.RetryStrategy(max_attempts=10, wait=1))
async def deliver(to):
    await call(to)


async def setup():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def enqueue():
    async with app.open_async():
        chunks = push.chunks()
        started = time.perf_counter()
        for chunk in chunks:
            await deliver.batch_defer_async(*({"to": token} for token in chunk))
        push.report(started)


async def work():
    global call
    if push.SETTINGS["http"] == "aiohttp":
        import aiohttp

        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=push.CONCURRENCY))

        async def call(to):
            async with session.post(push.SIM + "/push", data=push.body(to), headers=push.headers(to)) as answer:
                await answer.read()
                answer.raise_for_status()
    else:
        import httpx

        limits = httpx.Limits(max_connections=push.CONCURRENCY, max_keepalive_connections=push.CONCURRENCY)
        client = httpx.AsyncClient(limits=limits, timeout=60, trust_env=False)

        async def call(to):
            answer = await client.post(push.SIM + "/push", content=push.body(to), headers=push.headers(to))
            answer.raise_for_status()

    async with app.open_async():
        push.wait_for_go()
        threading.Thread(target=exit_at_end_of_input, daemon=True).start()
        workers = push.SETTINGS["workers"]
        await asyncio.gather(
            *(
                app.run_worker_async(
                    queues=["push"],
                    name=f"peer-{i}",
                    concurrency=max(1, push.CONCURRENCY // workers),
                    delete_jobs=push.SETTINGS["delete_jobs"],
                    fetch_job_polling_interval=1,
                    install_signal_handlers=False,
                )
                for i in range(workers)
            )
        )


def exit_at_end_of_input():
    """The end of input means: all is done, or `run` is gone. What is locked then dies with the cluster."""
    sys.stdin.read()
    os._exit(0)


phase = {"setup": setup, "enqueue": enqueue, "work": work}[sys.argv[1]]
if push.SETTINGS["loop"] == "uvloop":
    import uvloop

    uvloop.run(phase())
else:
    asyncio.run(phase())
