"""What a failed call says, from the details of its status."""

from dataclasses import dataclass, field

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status


@dataclass
class Refusal:
    """A status of Bongsu's. `reason` is for programs: messages may change, reasons do not."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    violations: list[tuple[str, str]] = field(default_factory=list)
    retry_after_s: float | None = None

    def may_succeed_later(self) -> bool:
        """Whether the same call is worth making again; harmless where it carries an idempotency key."""
        asked_to_wait = self.retry_after_s is not None
        return asked_to_wait or self.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

    def __str__(self) -> str:
        lines = [f"{self.code.name} {self.reason}: {self.message}"]
        lines += [f"  {name}: {description}" for name, description in self.violations]
        return "\n".join(lines)


def refusal(error: grpc.RpcError) -> Refusal:
    """A call that never reached a server has a code and no details."""
    found = Refusal(code=error.code(), message=error.details() or "")
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            found.reason, found.metadata = info.reason, dict(info.metadata)
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            found.violations = [(v.field, v.description) for v in bad.field_violations]
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            found.retry_after_s = retry.retry_delay.ToTimedelta().total_seconds()
    return found
