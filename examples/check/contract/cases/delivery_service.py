from . import ANY, case, simulate
from .broadcast_service import FINAL, INVALID, NO_BROADCAST, announcement

case(
    "DeliveryService/StreamStatus",
    {"broadcast_id": "$broadcast"},
    answers=[{"status": {"state": "BROADCAST_STATE_COMPLETED", "counts": {"sent": "2"}, "read_time": ANY}}],
)
case("DeliveryService/StreamStatus", {"broadcast_id": 1}, refused=NO_BROADCAST)
case(
    "DeliveryService/GetStatus",
    {"broadcast_id": "$broadcast"},
    answers={"status": {"counts": {"dead": "1"}, "providers": [{"provider": "push", "counts": {"total": "3"}}]}},
)
case("DeliveryService/GetStatus", {"broadcast_id": 0}, refused=INVALID, fields=("broadcast_id",))
case("DeliveryService/GetStatus", {"broadcast_id": 1}, refused=NO_BROADCAST)
case(
    "DeliveryService/ListDeliveries",
    {"broadcast_id": "$broadcast", "states": ["DELIVERY_STATE_DEAD"]},
    answers={"deliveries": [{"device_id": "$rejected", "dead_reason": "DEAD_REASON_REJECTED", "last_code": "400"}]},
)
case("DeliveryService/ListDeliveries", {"broadcast_id": 1}, refused=NO_BROADCAST)
case(
    "DeliveryService/ListDeliveries",
    {"broadcast_id": "$broadcast", "provider": "nobody", "page_token": "made up"},
    refused=INVALID,
    fields=("provider", "page_token"),
)
case(
    "DeliveryService/ListDeadLetters",
    {"broadcast_id": "$broadcast", "reasons": ["DEAD_REASON_REJECTED"]},
    answers={"dead_letters": [{"device_id": "$rejected", "user_id": "check-2", "attempts": 1, "replayed_by": "0"}]},
)
case("DeliveryService/ListDeadLetters", {"page_size": -1}, refused=INVALID, fields=("page_size",))

why = {"broadcast_id": "$broadcast"}
case(
    "DeliveryService/ExplainDelivery",
    {**why, "user_id": "check-2"},
    answers={"verdict": "DELIVERY_VERDICT_REJECTED", "summary": ANY, "devices": [ANY]},
)
case("DeliveryService/ExplainDelivery", {**why, "user_id": "nobody"}, refused="NOT_FOUND USER_NOT_FOUND")
case("DeliveryService/ExplainDelivery", {"broadcast_id": 1, "user_id": "check-2"}, refused=NO_BROADCAST)
case("DeliveryService/ExplainDelivery", why, refused=INVALID)
case("DeliveryService/ListSenders", {}, answers={"senders": [ANY]})
case("DeliveryService/PurgeDeadLetters", {**why, "validate_only": True}, answers={"matching": "1", "purged": "0"})
# All of them, ever: not without a time.
case("DeliveryService/PurgeDeadLetters", {}, refused=INVALID)

replay = {"replay_id": "check-replay", "broadcast_id": "$broadcast"}
case(
    "DeliveryService/ReplayDeadLetters",
    {**replay, "validate_only": True},
    answers={"matching": "1", "broadcast_id": "0"},
)
case(
    "DeliveryService/ReplayDeadLetters",
    replay,
    answers={"broadcast_id": ANY, "replayed": False},
    keep={"replay": "broadcast_id"},
)
case("DeliveryService/ReplayDeadLetters", replay, answers={"broadcast_id": "$replay", "replayed": True})
case(
    "DeliveryService/ReplayDeadLetters",
    {**replay, "replay_id": "check-1"},
    refused="ALREADY_EXISTS IDEMPOTENCY_KEY_REUSED",
    metadata={"broadcast_id": "$broadcast"},
)
case("DeliveryService/ReplayDeadLetters", {}, refused=INVALID, fields=("broadcast_id", "replay_id"))
case(
    "DeliveryService/ReplayDeadLetters", {**replay, "replay_id": "check-none", "broadcast_id": 1}, refused=NO_BROADCAST
)

# Under way for as long as the provider takes: nearly the ten seconds after which a sender gives a call up.
simulate({"latency_ms": 9000})
case(
    "BroadcastService/CreateBroadcast",
    announcement("check-slow"),
    answers={"broadcast": {"id": ANY}},
    keep={"slow": "broadcast.id"},
)
case("BroadcastService/PauseBroadcast", {"broadcast_id": "$slow"}, answers={"broadcast": {"paused": True}})
case("DeliveryService/GetStatus", {"broadcast_id": "$slow"}, answers={"status": {"paused": True}})
case("BroadcastService/ResumeBroadcast", {"broadcast_id": "$slow"}, answers={"broadcast": {"paused": False}})
case("BroadcastService/CancelBroadcast", {"broadcast_id": "$slow"}, answers={"broadcast": {"id": "$slow"}})
case("BroadcastService/PauseBroadcast", {"broadcast_id": "$slow"}, refused=FINAL, metadata={"broadcast_id": "$slow"})
