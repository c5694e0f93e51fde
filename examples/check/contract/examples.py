"""The examples beside us, as somebody who copies them would run them."""

import os
import subprocess
import uuid

PATIENCE_S = 120


def problems(root, stack, python, typescript):
    key = str(uuid.uuid4())
    command = [python, "announce.py", "--intake", stack.intake, "--sender", stack.sender, "--key", key]
    found = run("python", root / "examples/python", command, ["--title", "Other"], {})
    if typescript:
        environment = {"BONGSU_INTAKE": stack.intake, "BONGSU_SENDER": stack.sender, "BONGSU_KEY": key + "-ts"}
        command = ["npm", "start", "--silent", "--"]
        found += run("typescript", root / "examples/typescript", command, ["Other"], environment)
    return found


def run(name, directory, command, other_title, environment):
    """With one key: once, once more, of which nothing new may come, and with other content, which is refused."""
    found = []
    for due, more in (("is accepted", []), ("is known", []), ("IDEMPOTENCY_KEY_REUSED", other_title)):
        ended = subprocess.run(
            [*command, *more],
            cwd=directory,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        told = ended.stdout + ended.stderr
        to_the_end = "1 sent, 0 pending, 1 dead" in told and "DEAD_REASON_REJECTED 400" in told
        as_due = ended.returncode == 1 if more else ended.returncode == 0 and to_the_end
        if due not in told or not as_due:
            found.append(f"{name}: {due!r} was due; exit code {ended.returncode}\n{told}")
    return found
