"""Executes the `grpcurl` and `buf curl` lines of the docs, the former with a small one of our own over reflection."""

import datetime
import json
import re
import shlex
import subprocess

import grpc
from google.protobuf import descriptor_pool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from .client import PACKAGE, Contract, Refused

USUAL_INTAKE, USUAL_SENDER, USUAL_LIVE = "127.0.0.1:7070", "127.0.0.1:7080", "127.0.0.1:7090"
# A comment above a line that is refused on purpose: `# refused: PROVIDER_NOT_PARKED`.
REFUSED = re.compile(r"^# refused: ([A-Z_]+)")
# What a line says in the place of an id, and where an answer before it has that.
PLACES = {"ID": ("broadcast", "id"), "DEVICE": ("device", "id")}
PATIENCE_S = 120


def lines(text):
    """The commands of the code blocks of a page, continuation lines joined, each with the refusal that is due."""
    refused = ""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        continued = block.replace("\\\n", " ")
        joined = re.sub(r"-d '[^']*'", lambda quoted: quoted.group().replace("\n", " "), continued)
        for line in joined.splitlines():
            comment = REFUSED.match(line)
            refused = comment.group(1) if comment else refused
            if line.startswith(("grpcurl ", "buf curl ")):
                yield line, refused
                refused = ""


def run(root, contract, stack, buf):
    """How many lines were run, and what is wrong with them."""
    count, found, called, ids = 0, [], set(), {}
    first = root / "docs/grpcurl.md"
    for page in [first, *sorted({root / "README.md", *(root / "docs").glob("*.md")} - {first})]:
        for line, refused in lines(page.read_text()):
            if line.startswith("buf ") and not buf:
                continue
            count += 1
            method, problem = run_line(line, refused, contract, stack, buf, ids)
            if problem:
                found.append(f"{page.relative_to(root)}: {line}\n    {problem}")
            if page == first:
                called.add(method)
    found += [
        f"docs/grpcurl.md has no line for {method}: add one" for method in contract.methods if method not in called
    ]
    return count, found


def run_line(line, refused, contract, stack, buf, ids):
    """What it called, and what is wrong with that."""
    try:
        method = execute(with_ids(line, ids), contract, stack, buf, ids)
        return method, f"was answered, where {refused} was due" if refused else None
    except Refused as error:
        return error.method, None if error.reason == refused else str(error)
    except (ValueError, KeyError) as error:
        return None, str(error)


def with_ids(line, ids):
    for place, kind in PLACES.items():
        if f'"{place}"' in line:
            if kind[0] not in ids:
                raise ValueError(f"no line before this one made a {kind[0]}")
            line = line.replace(f'"{place}"', f'"{ids[kind[0]]}"')
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    return line.replace('"TOMORROW"', f'"{tomorrow:%Y-%m-%dT%H:%M:%SZ}"')


def execute(line, contract, stack, buf, ids):
    """Runs one line; returns the name of the RPC that it called, or the verb."""
    places = {USUAL_INTAKE: stack.intake, USUAL_SENDER: stack.sender, USUAL_LIVE: stack.live, "$TOKEN": stack.live_token}
    for usual, ours in places.items():
        line = line.replace(usual, ours)
    words = shlex.split(line)
    if words[0] == "buf":
        ended = subprocess.run([*buf, *words[1:]], capture_output=True, text=True, timeout=PATIENCE_S)
        if ended.returncode != 0:
            raise ValueError(ended.stderr)
        json.loads(ended.stdout)
        return "buf"
    return grpcurl(words[1:], contract, ids)


def grpcurl(words, contract, ids):
    """`[-plaintext] [-d JSON …] [-H HEADER] [-max-time S] [-import-path proto -proto FILE] ADDRESS (list | describe NAME |
    SERVICE/METHOD)`, which is all that our docs use. With -proto the files of the contract are taken instead of reflection."""
    data, plain, by_files, told, places = "", False, False, {}, []
    rest = iter(words)
    for word in rest:
        if word == "-plaintext":
            plain = True
        elif word == "-d":
            data = next(rest)
        elif word == "-H":
            name, value = next(rest).split(": ", 1)
            told["metadata"] = ((name, value),)
        elif word == "-max-time":
            told["timeout"] = float(next(rest))
        elif word in ("-import-path", "-proto"):
            by_files = bool(next(rest))
        elif word.startswith("-"):
            raise ValueError(f"this grpcurl knows no {word}: teach it in {__file__}")
        else:
            places.append(word)
    if not plain or len(places) < 2:
        raise ValueError("give -plaintext, an address, and what to call")
    address, verb, *names = places
    with grpc.insecure_channel(address) as channel:
        if by_files:
            return call(contract, channel, verb.removeprefix(f"{PACKAGE}."), data, ids, **told)
        offered = ProtoReflectionDescriptorDatabase(channel)
        services = [name for name in offered.get_services() if name.startswith(f"{PACKAGE}.")]
        pool = descriptor_pool.DescriptorPool(offered)
        if verb == "list":
            return verb
        if verb == "describe":
            symbol = names[0]
            (pool.FindServiceByName if symbol in services else pool.FindMessageTypeByName)(symbol)
            return verb
        reflected = Contract(pool, [name.removeprefix(f"{PACKAGE}.") for name in services])
        return call(reflected, channel, verb.removeprefix(f"{PACKAGE}."), data, ids, **told)


def call(contract, channel, method, data, ids, **told):
    if method not in contract.methods:
        raise ValueError(f"there is no {method}")
    messages = list(documents(data)) or [{}]
    request = messages if contract.methods[method].client_streaming else messages[0]
    try:
        answer = contract.call(channel, method, request, **told)
    except Refused as refused:
        if refused.code == "DEADLINE_EXCEEDED" and "timeout" in told:
            return method  # what does not end was to be cut
        refused.method = method
        raise
    for kind, field in PLACES.values():
        if isinstance(answer, dict) and answer.get(kind):
            ids[kind] = answer[kind][field]
    return method


def documents(text):
    """Several JSON documents, one after the other: what a client streams."""
    decoder = json.JSONDecoder()
    while text := text.strip():
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:]
