"""What a case is, and whether an answer fits it."""

import dataclasses
import time

from .client import Refused

# A value that is there and not empty.
ANY = object()

# What a status must carry beside its ErrorInfo, by its code.
DETAIL_OF_CODE = {
    "INVALID_ARGUMENT": "BadRequest",
    "NOT_FOUND": "ResourceInfo",
    "ALREADY_EXISTS": "ResourceInfo",
    "FAILED_PRECONDITION": "PreconditionFailure",
    "UNAVAILABLE": "RetryInfo",
}
# Made before anything of the request is known.
WITHOUT_DETAIL = ("MESSAGE_TOO_LARGE",)

POLL_S = 0.2


@dataclasses.dataclass
class Case:
    method: str
    request: object
    answers: object = None
    # "CODE REASON"
    refused: str = ""
    # Fields that the BadRequest names, exactly.
    fields: tuple = ()
    metadata: dict = dataclasses.field(default_factory=dict)
    keep: dict = dataclasses.field(default_factory=dict)
    within_s: float = 0
    # How many answers of a stream that does not end.
    takes: int | None = None
    # Done before the call, with the stack.
    before: object = None

    def run(self, contract, stack, kept):
        if self.before:
            self.before(stack)
        until = time.monotonic() + self.within_s
        while True:
            problem = self.once(contract, stack, kept)
            if problem is None or time.monotonic() > until:
                return problem
            time.sleep(POLL_S)

    def once(self, contract, stack, kept):
        service = self.method.split("/")[0]
        try:
            told = {"takes": self.takes, "metadata": stack.metadata_for(service)}
            answer = contract.call(stack.channel_for(service), self.method, filled(self.request, kept), **told)
        except Refused as refused:
            if not self.refused:
                return f"was refused: {refused}"
            return self.refusal_problem(contract, refused, kept)
        if self.refused:
            return f"was answered {shortened(answer)} where {self.refused} was due"
        problem = mismatch(filled(self.answers, kept), answer, "answer")
        if problem is None:
            kept.update({name: part(answer, path) for name, path in self.keep.items()})
        return problem

    def refusal_problem(self, contract, refused, kept):
        info = refused.details.get("ErrorInfo", {})
        if f"{refused.code} {refused.reason}" != self.refused:
            return f"ended {refused}, where {self.refused} was due"
        if info.get("domain") != "bongsu" or not refused.message:
            return f"has no domain or no message: {refused} {refused.details}"
        due = DETAIL_OF_CODE.get(refused.code)
        if due and due not in refused.details and refused.reason not in WITHOUT_DETAIL:
            return f"ended {refused} without a {due}"
        violations = refused.details.get("BadRequest", {}).get("fieldViolations", [])
        named = [violation["field"] for violation in violations]
        unknown = [field for field in named if not contract.has_field(self.method, field)]
        if unknown or not all(violation.get("description") for violation in violations):
            return f"its BadRequest names what the request has not, or says nothing of it: {violations}"
        if self.fields and sorted(named) != sorted(self.fields):
            return f"its BadRequest names {named}, where {list(self.fields)} are wrong"
        return mismatch(filled(self.metadata, kept), info.get("metadata", {}), "metadata")


def filled(value, kept):
    """With what `$name` stands for."""
    if isinstance(value, str) and value.startswith("$"):
        return kept[value[1:]]
    if isinstance(value, dict):
        return {key: filled(of, kept) for key, of in value.items()}
    return [filled(of, kept) for of in value] if isinstance(value, list) else value


def mismatch(wanted, got, at):
    """Where an answer does not have what is wanted of it; what nobody asked for may be as it likes."""
    if wanted is None:
        return None
    if wanted is ANY:
        return None if got not in (None, "", 0, "0", [], {}) else f"{at} is empty"
    if isinstance(wanted, dict) and isinstance(got, dict):
        problems = (mismatch(of, got.get(key), f"{at}.{key}") for key, of in wanted.items())
        return next((problem for problem in problems if problem), None)
    if isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            return f"{at} has {len(got)} entries, not {len(wanted)}: {shortened(got)}"
        problems = (mismatch(*pair, f"{at}[{i}]") for i, pair in enumerate(zip(wanted, got)))
        return next((problem for problem in problems if problem), None)
    return None if wanted == got else f"{at} is {shortened(got)}, not {shortened(wanted)}"


def part(answer, path):
    for step in path.split("."):
        answer = answer[int(step)] if step.lstrip("-").isdigit() else answer[step]
    return answer


def shortened(value):
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "…"
