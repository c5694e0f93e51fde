"""LiveService and InboxService, as the user of the token."""

from ..case import ANY
from . import case

ROUTED = {"title": "live", "audience": {"users": {"userIds": ["joon"]}}, "routing": "ROUTING_LIVE"}

case(
    "BroadcastService/CreateBroadcast",
    {"idempotency_key": "check-live", **ROUTED},
    answers={"broadcast": {"id": ANY, "routing": "ROUTING_LIVE"}},
    keep={"live": "broadcast.id"},
)
case(
    "LiveService/Subscribe",
    {},
    takes=2,
    answers=[
        {"connected": {"heartbeat_interval": ANY}},
        {"notification": {"notification_id": "$live", "event_id": ANY, "title": "live", "acknowledged": False}},
    ],
    keep={"event": "1.notification.event_id"},
    within_s=20,
)
case(
    "LiveService/Subscribe",
    {"last_event_id": "no event"},
    takes=2,
    answers=[{"connected": ANY}, {"gap": {"reason": "GAP_REASON_UNKNOWN_EVENT_ID"}}],
)
case("LiveService/Acknowledge", {"notification_ids": ["$live"]}, answers={})
case("LiveService/Acknowledge", {"notification_ids": [1]}, answers={})  # not hers: nothing happens
case("LiveService/Acknowledge", {}, refused="INVALID_ARGUMENT INVALID_REQUEST", fields=["notification_ids"])
case(
    "LiveService/Acknowledge",
    {"notification_ids": [-1]},
    refused="INVALID_ARGUMENT INVALID_REQUEST",
    fields=["notification_ids[0]"],
)
case(
    "InboxService/ListInbox",
    {"page_size": 1},
    answers={"notifications": [{"notification_id": "$live", "acknowledged": True, "read": False}], "unread_count": ANY},
)
case("InboxService/ListInbox", {"page_token": "none of ours"}, refused="INVALID_ARGUMENT INVALID_REQUEST", fields=["page_token"])
case("InboxService/MarkRead", {"up_to_event_id": "$event"}, answers={"unread_count": 0})
case("InboxService/MarkRead", {"notification_ids": ["$live"]}, answers={"unread_count": 0})
case("InboxService/MarkRead", {}, refused="INVALID_ARGUMENT INVALID_REQUEST")
