from . import ANY, case, simulate
from .broadcast_service import INVALID, announcement

case("ProviderService/ListProviders", {}, answers={"providers": [{"name": "push", "kind": "webhook"}]})
case("ProviderService/UnparkProvider", {}, refused=INVALID, fields=("provider",))
case(
    "ProviderService/UnparkProvider",
    {"provider": "nobody"},
    refused="NOT_FOUND PROVIDER_NOT_FOUND",
    metadata={"provider": "nobody", "configured": "push"},
)
case("ProviderService/UnparkProvider", {"provider": "push"}, refused="FAILED_PRECONDITION PROVIDER_NOT_PARKED")

# All that it is called for fails, and so it is parked.
simulate({"latency_ms": 0, "outage": True})
case(
    "BroadcastService/CreateBroadcast",
    announcement("check-outage"),
    answers={"broadcast": {"id": ANY}},
    keep={"outage": "broadcast.id"},
)
case(
    "ProviderService/ListProviders",
    {},
    answers={"providers": [{"parked_since": ANY, "park_reason": "PARK_REASON_FAILING", "parked_code": "503"}]},
    within_s=20,
)
case(
    "DeliveryService/GetStatus",
    {"broadcast_id": "$outage"},
    answers={"status": {"providers": [{"provider": "push", "parked_since": ANY, "parked_code": "503"}]}},
)
simulate({"outage": False})
case("ProviderService/UnparkProvider", {"provider": "push"}, answers={"provider": {"name": "push"}})
case(
    "BroadcastService/GetBroadcast",
    {"broadcast_id": "$outage"},
    answers={"broadcast": {"state": "BROADCAST_STATE_COMPLETED", "counts": {"sent": "2", "dead": "1"}}},
    within_s=30,
)

# By hand, and until somebody takes it back.
case(
    "ProviderService/ParkProvider",
    {"provider": "push", "reason": "check"},
    answers={"provider": {"park_reason": "PARK_REASON_BY_HAND", "parked_detail": "check"}},
)
case("ProviderService/ParkProvider", {}, refused=INVALID, fields=("provider", "reason"))
case("ProviderService/ParkProvider", {"provider": "nobody", "reason": "check"}, refused="NOT_FOUND PROVIDER_NOT_FOUND")
case("ProviderService/UnparkProvider", {"provider": "push"}, answers={"provider": {"name": "push"}})
