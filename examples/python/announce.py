"""Registers devices, announces something to them, and follows it to its end."""

import argparse
import random
import sys
import time
import uuid

import grpc
from bongsu.v1 import broadcast_pb2, broadcast_pb2_grpc, delivery_pb2, delivery_pb2_grpc, device_pb2, device_pb2_grpc
from errors import refusal

# A call without a deadline waits for ever where a network swallows the answer.
CALL_TIMEOUT_S = 10
# A status stream lasts as long as its broadcast; this ends one that we forgot.
WATCH_TIMEOUT_S = 3600
MAX_CALLS = 6
FIRST_DELAY_S = 0.5
MAX_DELAY_S = 10


def with_retries(call, request):
    """Makes a call until it has an answer. Only for calls that may be repeated: with a key, or by their nature."""
    delay = FIRST_DELAY_S
    for calls in range(1, MAX_CALLS + 1):
        try:
            return call(request, timeout=CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            why = refusal(error)
            if calls == MAX_CALLS or not why.may_succeed_later():
                raise
        # With some chance in it, so that callers that failed together do not come back together.
        wait = min(max(delay, why.retry_after_s or 0), MAX_DELAY_S) * random.uniform(1.0, 1.25)
        print(f"{why}\n  asking again in {wait:.1f} s", file=sys.stderr)
        time.sleep(wait)
        delay *= 2


def register(devices, provider, user, tokens):
    """Registering again is harmless: the same token of the same user is the same device."""
    for token in tokens:
        registration = device_pb2.DeviceRegistration(user_id=user, provider=provider, token=token, consent=True)
        answer = with_retries(devices.RegisterDevice, device_pb2.RegisterDeviceRequest(registration=registration))
        print(f"device {answer.device.id} is {'new' if answer.created else 'known'}")


def announce(broadcasts, key, user, title):
    """The key is made before the first call and stays the same in all of them: nobody is notified twice."""
    request = broadcast_pb2.CreateBroadcastRequest(
        idempotency_key=key,
        title=title,
        body="The beacon is lit",
        data={"url": "https://example.com/news"},
        audience=broadcast_pb2.Audience(users=broadcast_pb2.UserAudience(user_ids=[user])),
    )
    request.ttl.FromSeconds(3600)
    answer = with_retries(broadcasts.CreateBroadcast, request)
    print(f"broadcast {answer.broadcast.id} is {'known' if answer.replayed else 'accepted'}")
    return answer.broadcast.id


def watch(deliveries, broadcast_id):
    """Every message is the whole status, so a stream that broke is simply opened again, at any sender."""
    failures, final = 0, (broadcast_pb2.BROADCAST_STATE_COMPLETED, broadcast_pb2.BROADCAST_STATE_CANCELLED)
    while True:
        try:
            request = delivery_pb2.StreamStatusRequest(broadcast_id=broadcast_id)
            for message in deliveries.StreamStatus(request, timeout=WATCH_TIMEOUT_S):
                status, failures = message.status, 0
                print(f"{status.counts.sent} sent, {status.counts.pending} pending, {status.counts.dead} dead")
                if status.state in final:
                    return status
        except grpc.RpcError as error:
            failures += 1
            if failures == MAX_CALLS or not refusal(error).may_succeed_later():
                raise
            time.sleep(min(FIRST_DELAY_S * 2**failures, MAX_DELAY_S))


def dead_letters(deliveries, broadcast_id):
    """All pages of them."""
    token = ""
    while True:
        request = delivery_pb2.ListDeadLettersRequest(broadcast_id=broadcast_id, page_token=token)
        page = with_retries(deliveries.ListDeadLetters, request)
        yield from page.dead_letters
        token = page.next_page_token
        if not token:
            return


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--intake", default="127.0.0.1:7070", metavar="HOST:PORT")
    arguments.add_argument("--sender", default="127.0.0.1:7080", metavar="HOST:PORT")
    arguments.add_argument("--provider", default="push", help="as in sender-svc --webhook NAME=URL")
    arguments.add_argument("--title", default="Hello from Python")
    arguments.add_argument("--key", default=str(uuid.uuid4()), help="give the same again to ask again")
    given = arguments.parse_args()
    try:
        with grpc.insecure_channel(given.intake) as intake, grpc.insecure_channel(given.sender) as sender:
            deliveries = delivery_pb2_grpc.DeliveryServiceStub(sender)
            # The simulator refuses what begins with `rejected-`, so that there is a dead letter to look at.
            tokens = ["python-phone", "rejected-python"]
            register(device_pb2_grpc.DeviceServiceStub(intake), given.provider, "python-user", tokens)
            broadcasts = broadcast_pb2_grpc.BroadcastServiceStub(intake)
            broadcast_id = announce(broadcasts, given.key, "python-user", given.title)
            watch(deliveries, broadcast_id)
            for letter in dead_letters(deliveries, broadcast_id):
                reason = delivery_pb2.DeadReason.Name(letter.reason)
                print(f"device {letter.device_id} of {letter.user_id} was given up: {reason} {letter.code}")
    except grpc.RpcError as error:
        sys.exit(str(refusal(error)))


if __name__ == "__main__":
    main()
