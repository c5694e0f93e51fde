"""What of the contract has no case."""

import re

import grpc

CODES = {code.name for code in grpc.StatusCode}
# A row of the tables above the services: indented, capitals first.
ROW = re.compile(r"^ {2,}([A-Z][A-Z_, ]*[A-Z])")
WORD = re.compile(r"[A-Z][A-Z_]+")


def documented_reasons(comment):
    """Of `  NOT_FOUND  DEVICE_NOT_FOUND  no device …` the second."""
    found = set()
    for line in comment.splitlines():
        row = ROW.match(line)
        words = WORD.findall(row.group(1)) if row else []
        # A line that says "as for …" names codes only, among them INTERNAL, whose reason has the same name.
        found |= {word for word in words if word not in CODES}
        if len(words) == 2 and words[0] == words[1]:
            found.add(words[0])
    return found


def problems(contract, cases, cannot_be_refused, elsewhere, root):
    found = []
    for method in contract.methods:
        own = [case for case in cases if case.method == method]
        if not any(not case.refused for case in own):
            found.append(f"{method} has no case that is answered: add one to examples/check/contract/cases/")
        if method not in cannot_be_refused and not any(case.refused for case in own):
            found.append(f"{method} has no case that is refused: add one to examples/check/contract/cases/")
    found += [f"{case.method} is no RPC" for case in cases if case.method not in contract.methods]
    shown = {case.refused.split()[1] for case in cases if case.refused}
    documented = set().union(*map(documented_reasons, contract.comments.values()))
    for reason in sorted(documented - shown - elsewhere.keys()):
        found.append(
            f"{reason} is documented in proto/ and no case shows it: add one to examples/check/contract/cases/"
        )
    found += [f"{reason} is shown, and documented nowhere in proto/" for reason in sorted(shown - documented)]
    for reason, (path, words) in elsewhere.items():
        if words not in (root / path).read_text():
            found.append(f"{path} says nothing of {words!r}, which was to show {reason}")
        if reason in shown or reason not in documented:
            found.append(f"{reason} need not be in ELSEWHERE: it has a case, or is not documented")
    return found
