"""All of Bongsu, as `bongsu dev` runs it."""

import json
import signal
import subprocess
import urllib.request

import grpc

STOP_PATIENCE_S = 60
# Whose notifications are looked at.
LIVE_USER = "joon"
LIVE_SERVICES = ("LiveService", "InboxService")


class Stack:
    def __init__(self, executable):
        command = [executable, "dev", "--any-port", "--json"]
        self.stopping = False
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        greeting = self.process.stdout.readline()
        if not greeting:
            raise SystemExit(f"{executable} dev did not start")
        addresses = json.loads(greeting)
        self.intake = addresses["intake"].removeprefix("http://")
        self.sender = addresses["senders"][0].removeprefix("http://")
        self.simulator = addresses["provider_sim"]
        self.live = addresses["live"][0].removeprefix("http://")
        token = [executable, "live", "token", "--jwks", addresses["live_jwks"], "--user", LIVE_USER]
        self.live_token = subprocess.run(token, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        places = (self.intake, self.sender, self.live)
        self.channels = {address: grpc.insecure_channel(address) for address in places}

    def channel_for(self, service):
        """Which process serves it."""
        if service in LIVE_SERVICES:
            return self.channels[self.live]
        at_intake = service in ("BroadcastService", "DeviceService")
        return self.channels[self.intake if at_intake else self.sender]

    def metadata_for(self, service):
        """Who calls: a user, where it is for users."""
        return (("authorization", f"Bearer {self.live_token}"),) if service in LIVE_SERVICES else ()

    def simulate(self, behaviour):
        body = json.dumps(behaviour).encode()
        request = urllib.request.Request(f"{self.simulator}/behaviour", data=body, method="PATCH")
        # Straight to it, whatever proxy the environment names.
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()

    def begin_to_stop(self):
        # A second signal ends it at once, with all that it would have cleared away.
        if not self.stopping:
            self.stopping = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self):
        for channel in self.channels.values():
            channel.close()
        if self.process.poll() is None:
            self.begin_to_stop()
        try:
            self.process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
