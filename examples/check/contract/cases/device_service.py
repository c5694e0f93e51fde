from . import ANY, case

NO_DEVICE = "NOT_FOUND DEVICE_NOT_FOUND"
INVALID = "INVALID_ARGUMENT INVALID_REQUEST"


def registration(user, token, **more):
    return {"user_id": user, "provider": "push", "token": token, **more}


def register(user, token, keep):
    case(
        "DeviceService/RegisterDevice",
        {"registration": registration(user, token, topics=["check"])},
        answers={"created": True, "device": {"id": ANY, "consent": True, "topics": ["check"], "register_time": ANY}},
        keep={keep: "device.id"},
    )


register("check-1", "check-phone", keep="device")
register("check-1", "check-tablet", keep="tablet")
register("check-2", "rejected-check", keep="rejected")
case(
    "DeviceService/RegisterDevice",
    {"registration": registration("check-1", "check-phone")},
    answers={"created": False, "device": {"id": "$device", "topics": ["check"]}},
)
case("DeviceService/RegisterDevice", {}, refused=INVALID, fields=("registration",))
case(
    "DeviceService/RegisterDevice",
    {"registration": registration("", "t", topics=["no spaces"])},
    refused=INVALID,
    fields=("registration.user_id", "registration.topics[0]"),
)
case(
    "DeviceService/RegisterDevice",
    {"registration": {**registration("u", "t"), "provider": "nobody"}},
    refused="INVALID_ARGUMENT UNKNOWN_PROVIDER",
    fields=("registration.provider",),
    metadata={"provider": "nobody", "configured": "push"},
)

case(
    "DeviceService/GetDevice",
    {"device_id": "$device"},
    answers={"device": {"user_id": "check-1", "state": "DEVICE_STATE_LIVE"}},
)
case("DeviceService/GetDevice", {"device_id": 999_999}, refused=NO_DEVICE)

a_page = {"user_id": "check-1", "page_size": 1}
case(
    "DeviceService/ListDevices",
    a_page,
    answers={"devices": [{"id": "$device"}], "next_page_token": ANY},
    keep={"page": "next_page_token"},
)
case("DeviceService/ListDevices", {**a_page, "page_token": "$page"}, answers={"devices": [{"id": "$tablet"}]})
case(
    "DeviceService/ListDevices",
    {"page_size": -1, "page_token": "made up"},
    refused=INVALID,
    fields=("page_size", "page_token"),
)
# A page token belongs to its filter.
case(
    "DeviceService/ListDevices", {"user_id": "check-2", "page_token": "$page"}, refused=INVALID, fields=("page_token",)
)

case("DeviceService/UpdateConsent", {"user_id": "check-1", "consent": True}, answers={"devices": "2"})
case("DeviceService/UpdateConsent", {"user_id": "nobody", "consent": True}, refused=NO_DEVICE)
case("DeviceService/UpdateConsent", {"consent": True}, refused=INVALID, fields=("subject",))

case(
    "DeviceService/SubscribeTopic",
    {"topic": "more", "device_ids": ["$device", 999_999]},
    answers={"subscribed": "1", "unknown_device_ids": ["999999"]},
)
case("DeviceService/SubscribeTopic", {"topic": "", "device_ids": []}, refused=INVALID, fields=("topic", "device_ids"))
case("DeviceService/UnsubscribeTopic", {"topic": "more", "device_ids": ["$device"]}, answers={"unsubscribed": "1"})
case("DeviceService/UnsubscribeTopic", {"topic": "", "device_ids": []}, refused=INVALID, fields=("topic", "device_ids"))

case(
    "DeviceService/ImportDevices",
    [
        {"registrations": [registration("import-1", "import-1"), registration("import-2", "")]},
        {"registrations": [registration("import-3", "import-3")]},
    ],
    answers={
        "rows": "3",
        "created": "2",
        "rejected": "1",
        "errors": [{"row": "1", "field": "token", "description": ANY}],
    },
)
case(
    "DeviceService/ImportDevices",
    [{"registrations": [registration("import-4", "import-4")] * 10_001}],
    refused=INVALID,
    fields=("registrations",),
)

case(
    "DeviceService/UnregisterDevice",
    {"token": {"provider": "push", "token": "import-3"}},
    answers={
        "device": {"user_id": "import-3", "state": "DEVICE_STATE_RETIRED", "retire_reason": "RETIRE_REASON_REQUESTED"}
    },
)
case("DeviceService/UnregisterDevice", {"token": {"provider": "push", "token": "import-3"}}, refused=NO_DEVICE)
case("DeviceService/UnregisterDevice", {}, refused=INVALID, fields=("device",))

# One that was unregistered by its caller stays so.
case("DeviceService/RestoreDevices", {"ids": {"device_ids": ["$device"]}}, answers={"restored": "0", "superseded": "0"})
case("DeviceService/RestoreDevices", {}, refused=INVALID, fields=("devices",))
