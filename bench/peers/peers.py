"""The peers: how each is installed, started and asked whether all is done."""

import dataclasses
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

from machine import Trouble

HERE = pathlib.Path(__file__).resolve().parent
DEPS = HERE / ".deps"

# The packages ask for Node 22.19. Where there is none, this one is installed here, from npm's copies of the official
# builds.
OLDEST_NODE = (22, 19)
NODE_VERSION = "24.22.3"


@dataclasses.dataclass
class Peer:
    runtime: str
    program: str
    # Whether a job is left that is not done, in SQL.
    open_jobs: str
    # What tuning found best; `run --set` changes it for one measurement. `processes` share the concurrency.
    settings: dict


PEERS = {
    "graphile-worker": Peer(
        "node",
        "graphile_worker.mjs",
        "select exists(select from graphile_worker._private_jobs)",
        {"processes": 1, "pool": 10, "local_queue": 1000, "complete_delay_ms": 250, "enqueue": "sql"},
    ),
    "pg-boss": Peer(
        "node",
        "pg_boss.mjs",
        "select exists(select from pgboss.job where state <> 'completed')",
        {"processes": 1, "pool": 10, "batch_size": 128, "partition": True},
    ),
    "procrastinate": Peer(
        "python",
        "procrastinate_peer.py",
        "select exists(select from procrastinate_jobs where status <> 'succeeded')",
        {"processes": 2, "workers": 4, "pool": 20, "delete_jobs": "never", "http": "aiohttp", "loop": "uvloop"},
    ),
    "graphile-worker-rs": Peer(
        "rust",
        "graphile-worker-rs",
        "select exists(select from graphile_worker._private_jobs)",
        {"processes": 1, "pool": 10, "local_queue": 1000, "queue_count": 4, "complete_delay_ms": 5, "http": "h2c",
         "threads": 2},
    ),
    "loop": Peer(
        "python",
        "loop.py",
        "select exists(select from push where sent_at is null)",
        {"processes": 1},
    ),
}  # fmt: skip


def install(names):
    """Installs what these peers need into this folder, unless it is there, and returns their command lines."""
    commands = {"node": node, "python": python, "rust": rust}
    found = {runtime: commands[runtime]() for runtime in {PEERS[name].runtime for name in names}}
    return {name: found[PEERS[name].runtime](PEERS[name].program) for name in names}


def version(name):
    """As the lock files say."""
    package = "graphile_worker" if name == "graphile-worker-rs" else name
    texts = {
        "node": ("package-lock.json", rf'"node_modules/{package}": \{{\s*"version": "(.*?)"'),
        "python": ("requirements.txt", rf"^{package}==(.*)$"),
        "rust": ("graphile-worker-rs/Cargo.lock", rf'name = "{package}"\nversion = "(.*?)"'),
    }
    file, pattern = texts[PEERS[name].runtime]
    found = re.search(pattern, (HERE / file).read_text(), re.MULTILINE)
    return found[1] if found else "–"


def node():
    system = shutil.which("node")
    npm = shutil.which("npm")
    if not system or not npm:
        raise Trouble("node and npm are missing: install Node.js as https://nodejs.org says")
    if not (HERE / "node_modules").exists() or changed("package-lock.json"):
        say("npm ci")
        command([npm, "ci", "--ignore-scripts", "--loglevel=error"])
        keep("package-lock.json")
    answer = subprocess.run([system, "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(int(part) for part in re.findall(r"\d+", answer)[:2]) >= OLDEST_NODE:
        executable = system
    else:
        machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        package = f"node-linux-{machine}"
        executable = DEPS / "node" / "node_modules" / package / "bin" / "node"
        if not executable.exists():
            say(f"npm install {package}@{NODE_VERSION}, since Node here is {answer.strip()}")
            prefix = ["--no-save", "--prefix", DEPS / "node"]
            command([npm, "install", "--loglevel=error", *prefix, f"{package}@{NODE_VERSION}"])
    return lambda program: [executable, HERE / program]


def python():
    executable = DEPS / "venv" / "bin" / "python"
    if not executable.exists() or changed("requirements.txt"):
        say("pip install -r requirements.txt")
        command([sys.executable, "-m", "venv", DEPS / "venv"])
        command([executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"])
        keep("requirements.txt")
    return lambda program: [executable, HERE / program]


def rust():
    say("cargo build in graphile-worker-rs")
    project = HERE / "graphile-worker-rs"
    command(["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", "target"], cwd=project)
    return lambda program: [project / "target" / "release" / f"{program}-peer"]


def changed(file):
    stamp = DEPS / f"{file}.sha256"
    return not stamp.exists() or stamp.read_text() != digest(file)


def keep(file):
    DEPS.mkdir(exist_ok=True)
    (DEPS / f"{file}.sha256").write_text(digest(file))


def digest(file):
    return hashlib.sha256((HERE / file).read_bytes()).hexdigest()


def command(arguments, cwd=HERE):
    if subprocess.run(arguments, cwd=cwd, stdout=sys.stderr, env=os.environ).returncode != 0:
        raise Trouble(f"this failed in {cwd}: {' '.join(map(str, arguments))}")


def say(text):
    print(text, file=sys.stderr, flush=True)
