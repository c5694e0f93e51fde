import datetime

from . import ANY, case

NO_BROADCAST = "NOT_FOUND BROADCAST_NOT_FOUND"
FINAL = "FAILED_PRECONDITION BROADCAST_FINAL"
INVALID = "INVALID_ARGUMENT INVALID_REQUEST"
TO_ALL = {"topics": {"topics": ["check"]}}


def announcement(key, **more):
    return {"idempotency_key": key, "title": "Check", "audience": TO_ALL, "ttl": "3600s", **more}


case(
    "BroadcastService/CreateBroadcast",
    announcement("check-1", validate_only=True),
    answers={
        "broadcast": {"id": "0", "title": "Check"},
        "replayed": False,
        "preflight": {"devices": "3", "providers": [{"name": "push", "devices": "3", "limit_bytes": ANY}]},
    },
)
case(
    "BroadcastService/CreateBroadcast",
    announcement("check-1", data={"a": "b"}, priority="PRIORITY_HIGH"),
    answers={"broadcast": {"id": ANY, "expire_time": ANY, "data": {"a": "b"}, "audience": TO_ALL}, "replayed": False},
    keep={"broadcast": "broadcast.id"},
)
case(
    "BroadcastService/CreateBroadcast",
    announcement("check-1", data={"a": "b"}, priority="PRIORITY_HIGH"),
    answers={"broadcast": {"id": "$broadcast"}, "replayed": True},
)
case(
    "BroadcastService/CreateBroadcast",
    announcement("check-1"),
    refused="ALREADY_EXISTS IDEMPOTENCY_KEY_REUSED",
    metadata={"broadcast_id": "$broadcast"},
)
case("BroadcastService/CreateBroadcast", {}, refused=INVALID, fields=("idempotency_key", "audience", "title"))
case("BroadcastService/CreateBroadcast", announcement("check-2", ttl="0s"), refused=INVALID, fields=("ttl",))
case(
    "BroadcastService/CreateBroadcast",
    announcement("check-2", audience={"topics": {"topics": ["ok", "not ok"]}}),
    refused=INVALID,
    fields=("audience.topics.topics[1]",),
)
case(
    "BroadcastService/CreateBroadcast",
    announcement("check-2", body="x" * 17_000_000),
    refused="RESOURCE_EXHAUSTED MESSAGE_TOO_LARGE",
)

case(
    "BroadcastService/GetBroadcast",
    {"broadcast_id": "$broadcast"},
    answers={
        "broadcast": {"state": "BROADCAST_STATE_COMPLETED", "counts": {"total": "3", "sent": "2", "dead_rejected": "1"}}
    },
    within_s=20,
)
case("BroadcastService/GetBroadcast", {"broadcast_id": 1}, refused=NO_BROADCAST, metadata={"broadcast_id": "1"})

case(
    "BroadcastService/ListBroadcasts",
    {"states": ["BROADCAST_STATE_COMPLETED"], "page_size": 1},
    answers={"broadcasts": [{"id": "$broadcast"}]},
)
case("BroadcastService/ListBroadcasts", {"page_token": "made up"}, refused=INVALID, fields=("page_token",))

# It has ended; what can still be stopped is in delivery_service.py, where one takes long enough.
case("BroadcastService/PauseBroadcast", {"broadcast_id": "$broadcast"}, refused=FINAL, metadata={"state": "completed"})
case("BroadcastService/PauseBroadcast", {"broadcast_id": 1}, refused=NO_BROADCAST)
case("BroadcastService/ResumeBroadcast", {"broadcast_id": "$broadcast"}, refused=FINAL, metadata={"state": "completed"})
case("BroadcastService/CancelBroadcast", {"broadcast_id": "$broadcast"}, refused=FINAL, metadata={"state": "completed"})

tomorrow = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
case(
    "BroadcastService/CreateBroadcast",
    announcement("check-later", schedule_time=tomorrow, max_rate_per_second=100),
    answers={"broadcast": {"state": "BROADCAST_STATE_SCHEDULED", "schedule_time": ANY, "max_rate_per_second": 100}},
    keep={"later": "broadcast.id"},
)
case("BroadcastService/RescheduleBroadcast", {"broadcast_id": "$later"}, refused=INVALID)
case("BroadcastService/RescheduleBroadcast", {"broadcast_id": 1, "now": True}, refused=NO_BROADCAST)
case(
    "BroadcastService/RescheduleBroadcast",
    {"broadcast_id": "$later", "now": True},
    answers={"broadcast": {"id": "$later", "state": "BROADCAST_STATE_ACCEPTED"}},
)
case(
    "BroadcastService/RescheduleBroadcast",
    {"broadcast_id": "$later", "now": True},
    refused="FAILED_PRECONDITION BROADCAST_STARTED",
)
