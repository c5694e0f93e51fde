"""What is asked of each service, in order; later cases build on what earlier ones made."""

from ..case import ANY, Case

CASES = []

# Documented errors that need a broken world, and the test of ours that breaks it: a file, and words that are in it.
ELSEWHERE = {
    "OVERLOADED": ("integration-tests/tests/it/limits.rs", "OVERLOADED"),
    "TOO_MANY_WATCHERS": ("integration-tests/tests/it/limits.rs", "TOO_MANY_WATCHERS"),
    "DATABASE_UNAVAILABLE": ("integration-tests/tests/it/failing_database.rs", "DATABASE_UNAVAILABLE"),
    "DELIVERIES_DROPPED": ("integration-tests/tests/it/retention.rs", "end of their retention"),
    "IMPORT_IDLE": ("intake-svc/src/status.rs", "IMPORT_IDLE"),
    "INTERNAL": ("intake-svc/src/status.rs", "Code::Internal"),
    # `bongsu dev` has no access file.
    **{
        reason: ("ops/src/access/refusal.rs", reason)
        for reason in (
            "TOKEN_MISSING",
            "TOKEN_UNKNOWN",
            "CERTIFICATE_UNKNOWN",
            "ROLE_MISSING",
            "CLIENT_RATE_EXCEEDED",
            "CLIENT_STREAMS_EXCEEDED",
        )
    },
    # A token that is refused, and streams beyond their bounds.
    "TOKEN_INVALID": ("sender-svc/src/live/auth/tests/forged.rs", "Refused::Invalid"),
    "TOKEN_EXPIRED": ("sender-svc/src/live/auth/tests/forged.rs", "Refused::Expired"),
    **{
        reason: ("sender-svc/src/live/tests/limits.rs", reason)
        for reason in ("USER_CONNECTIONS_EXCEEDED", "CONNECTIONS_EXCEEDED")
    },
    "TOO_SLOW": ("sender-svc/src/rpc/status.rs", "TOO_SLOW"),
    # check.py stops the stack at the end, and looks.
    "DRAINING": ("examples/check/check.py", "DRAINING"),
}

# RPCs that take nothing, so that nothing in a request can be wrong.
# A stream begins after any event; after one that never was, with a gap.
CANNOT_BE_REFUSED = ("ProviderService/ListProviders", "DeliveryService/ListSenders", "LiveService/Subscribe")

_pending = []


def case(method, request, **more):
    CASES.append(Case(method, request, before=_taken(), **more))


def simulate(behaviour):
    """Before the next case, changes what the simulated push provider does."""
    _pending.append(behaviour)


def _taken():
    behaviours, _pending[:] = list(_pending), []
    if not behaviours:
        return None
    return lambda stack: [stack.simulate(behaviour) for behaviour in behaviours]


# In the order in which they run.
from . import device_service  # noqa: E402, F401
from . import broadcast_service  # noqa: E402, F401
from . import delivery_service  # noqa: E402, F401
from . import provider_service  # noqa: E402, F401
from . import live_service  # noqa: E402, F401
