"""What every peer runs on: one private PostgreSQL cluster, one simulator of a push provider, and the CPU time of both."""

import ctypes
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
# A peer that has delivered nothing for so long is stuck; retries of all of them come sooner.
STALL_S = 60

# The same for every peer. All but the first four are what `bongsu demo` gives its own cluster.
POSTGRES = {
    "fsync": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    # With the checkpoint before each run: no checkpoint falls into one, and no run pays for full pages after one.
    "checkpoint_timeout": "1h",
    "synchronous_commit": "on",
    "listen_addresses": "''",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "jit": "off",
    "autovacuum_naptime": "5s",
}


class Trouble(Exception):
    """Something that the person who started the benchmark has to know or do."""


def die_with_parent():
    """Linux only: if we are killed without a chance to clean up, PostgreSQL shuts down too."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def cpu_us(pid, reaped=True):
    """User and system time of a process and, with `reaped`, of its children that ended."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # The name in parentheses may hold anything; utime, stime, cutime and cstime are fields 14 to 17.
    times = [int(field) for field in stat.rsplit(")", 1)[1].split()[11:15]]
    return sum(times if reaped else times[:2]) * TICK_US


class Postgres:
    """A private cluster in a directory of its own, reached over its Unix socket only."""

    def __init__(self, bin_dir):
        self.bin = pathlib.Path(bin_dir)
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="bongsu-peers-"))
        self.server = None
        self.sessions = {}
        self.as_user = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            user = pwd.getpwnam("postgres")
            os.chown(self.dir, user.pw_uid, user.pw_gid)
            self.as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        self.env |= {"PGHOST": str(self.dir), "PGUSER": "postgres", "PGPORT": "5432", "PGSSLMODE": "disable"}
        self.env["PGOPTIONS"] = "-c client_min_messages=warning"

    def start(self):
        data, log = self.dir / "data", self.dir / "log"
        quiet = {"stdin": subprocess.DEVNULL, "cwd": "/", "env": self.env, **self.as_user}
        with open(log, "w") as out:
            initdb = [self.bin / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]
            subprocess.run(initdb, check=True, stdout=out, stderr=out, **quiet)
            settings = POSTGRES | {"unix_socket_directories": f"'{self.dir}'"}
            with open(data / "postgresql.conf", "a") as conf:
                conf.writelines(f"{name} = {value}\n" for name, value in settings.items())
            self.server = subprocess.Popen(
                [self.bin / "postgres", "-D", data],
                stdout=out, stderr=out, start_new_session=True, preexec_fn=die_with_parent, **quiet,
            )  # fmt: skip
        ready = [self.bin / "pg_isready", "-q"]
        deadline = time.monotonic() + 60
        while subprocess.run(ready, env=self.env).returncode != 0:
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise Trouble(f"PostgreSQL did not start; its log ends with\n{log.read_text()[-2000:]}")
            time.sleep(0.1)

    def sql(self, statement, database="postgres"):
        """The one value that `statement` returns, or an empty string. Sessions stay open: a new one for each question
        would be measured too."""
        session = self.sessions.get(database)
        if session is None:
            psql = [self.bin / "psql", "-qAtX", "-d", database]
            session = self.sessions[database] = subprocess.Popen(
                psql, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        session.stdin.write(f"{statement};\n\\echo .\n")
        session.stdin.flush()
        value = ""
        for line in session.stdout:
            if line == ".\n":
                return value
            value = line.strip()
        raise Trouble(f"PostgreSQL gave no answer to: {statement}")

    def fresh_database(self, name):
        """A new database, after which nothing of an earlier one is left to be written or cleaned up."""
        if (old := self.sessions.pop(name, None)) is not None:
            old.stdin.close()
            old.wait()
        self.sql(f"drop database if exists {name} with (force)")
        self.sql(f"create database {name}")
        self.sql("checkpoint")

    def cpu_us(self):
        postmaster = self.server.pid
        children = pathlib.Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        return cpu_us(postmaster) + sum(cpu_us(child, reaped=False) for child in children)

    def wal_bytes(self):
        return int(self.sql("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"))

    def stop(self):
        for session in self.sessions.values():
            session.kill()
            session.wait()
        if self.server is not None and self.server.poll() is None:
            # Nobody needs the data: no checkpoint at the end.
            self.server.send_signal(signal.SIGQUIT)
            self.server.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Simulator:
    """The push provider's simulator: provider-sim as a hidden subcommand of `bongsu`."""

    def __init__(self, bongsu):
        command = [bongsu, "provider-sim", "--listen", "127.0.0.1:0", "--announce", "--exit-with-parent"]
        env = {name: value for name, value in os.environ.items() if not name.startswith("BONGSU_")}
        # The pipe is our hold on it: it ends with us, however we end.
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, env=env, **pipes)
        self.url = "http://" + json.loads(self.process.stdout.readline() or "{}").get("http", "")
        self.http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with self.http.open(request, timeout=STALL_S) as answer:
            return json.load(answer)

    def start_over(self, latency_ms, jitter_ms, transient):
        behaviour = {"latency_ms": latency_ms, "jitter_ms": jitter_ms, "transient": transient}
        self.ask("PATCH", "/behaviour", behaviour)
        self.ask("POST", "/reset")

    def accepted_at_ms(self, count, look_after):
        """Waits for the acceptance of that number, and returns when it was. `look_after` is called now and then."""
        before, since = -1, time.monotonic()
        while True:
            try:
                return self.ask("GET", f"/wait?accepted={count}&timeout_ms=1000")["last_accepted_unix_ms"]
            except urllib.error.HTTPError as answer:
                if answer.code != 408:
                    raise
            look_after()
            accepted = self.stats()["accepted"]
            if accepted != before:
                before, since = accepted, time.monotonic()
            elif time.monotonic() - since > STALL_S:
                raise Trouble(f"nothing was accepted for {STALL_S} s after {accepted} pushes")

    def stats(self):
        return self.ask("GET", "/stats")

    def cpu_us(self):
        return cpu_us(self.process.pid)

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
