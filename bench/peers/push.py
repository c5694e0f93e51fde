"""What the Python peers share: how `run` talks to them, and what one call of the push provider looks like."""

import json
import os
import sys
import time

JOBS = int(os.environ["BENCH_JOBS"])
CONCURRENCY = int(os.environ["BENCH_CONCURRENCY"])
SETTINGS = json.loads(os.environ["BENCH_SETTINGS"])
SIM = os.environ["BENCH_SIM"]

# How many jobs one bulk insert makes.
CHUNK = 10_000
# The text is the same for everybody: a job carries the token alone, which is kinder to a queue than repeating the text.
NOTIFICATION = json.dumps(
    {
        "broadcast_id": "peers",
        "title": "The beacon is lit",
        "body": "Fire on the southern ridge: five fires, all the way to the capital.",
        "data": {},
    }
)


def body(token):
    return f'{{"to":{json.dumps(token)},"notification":{NOTIFICATION}}}'.encode()


def headers(token):
    return {"Content-Type": "application/json", "Idempotency-Key": f"peers/{token}"}


def chunks():
    tokens = [f"good-{i}" for i in range(JOBS)]
    return [tokens[i : i + CHUNK] for i in range(0, JOBS, CHUNK)]


def report(started):
    print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)


def wait_for_go():
    print("ready", flush=True)
    sys.stdin.readline()
