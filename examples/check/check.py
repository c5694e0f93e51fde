"""Calls Bongsu as others would: every RPC from its descriptor, the examples, and the lines in the docs."""

import argparse
import pathlib
import shlex
import sys

from contract import coverage, docs, examples
from contract.cases import CASES, CANNOT_BE_REFUSED, ELSEWHERE
from contract.client import Contract, Refused
from contract.stack import Stack

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_cases(contract, stack):
    kept, problems = {}, []
    for number, one in enumerate(CASES, 1):
        problem = one.run(contract, stack, kept)
        if problem:
            problems.append(f"case {number}, {one.method} {str(one.request)[:200]}: {problem}")
    return problems


def drained(contract, stack):
    """A process that stops says so to whoever watches, last of all."""
    channel = stack.channel_for("BroadcastService")
    user = {"userIds": ["check-1"]}
    request = {"idempotency_key": "check-drain", "title": "x", "audience": {"users": user}}
    stack.simulate({"latency_ms": 9000})
    created = contract.call(channel, "BroadcastService/CreateBroadcast", request)["broadcast"]
    contract.call(channel, "BroadcastService/PauseBroadcast", {"broadcast_id": created["id"]})
    stack.begin_to_stop()
    try:
        watched = stack.channel_for("DeliveryService")
        contract.call(watched, "DeliveryService/StreamStatus", {"broadcast_id": created["id"]})
    except Refused as refused:
        told = (refused.code, refused.reason, "RetryInfo" in refused.details)
        return [] if told == ("UNAVAILABLE", "DRAINING", True) else [f"a watcher was told {refused} {refused.details}"]
    return ["a watcher of a sender that stopped was told nothing of it"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("bongsu", help="the executable to check")
    arguments.add_argument("--venv-python", default=sys.executable, help="runs the Python example")
    arguments.add_argument("--typescript", action="store_true", help="run the TypeScript example, which must be built")
    arguments.add_argument("--buf", default="", help="the command that is buf; without it, its lines are not run")
    given = arguments.parse_args()
    contract = Contract.of_files(ROOT / "proto")
    failed = False

    def section(name, problems, what):
        nonlocal failed
        failed |= bool(problems)
        print(f"{name}: " + (f"{len(problems)} problems" if problems else f"ok, {what}"), flush=True)
        for problem in problems:
            print(f"  {problem}")

    section("coverage", coverage.problems(contract, CASES, CANNOT_BE_REFUSED, ELSEWHERE, ROOT), "every RPC and error")
    stack = Stack(given.bongsu)
    try:
        section("cases", run_cases(contract, stack), f"{len(CASES)} of them")
        stack.simulate({"latency_ms": 0, "outage": False})
        section("examples", examples.problems(ROOT, stack, given.venv_python, given.typescript), "run to their end")
        lines, problems = docs.run(ROOT, contract, stack, shlex.split(given.buf))
        section("lines of the docs", problems, f"{lines} of them")
        section("drain", drained(contract, stack), "a watcher is told")
    finally:
        stack.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
