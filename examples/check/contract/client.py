"""Calls any RPC from its descriptor, requests and answers as JSON: no code is generated, and nothing forgotten."""

import itertools
import pathlib
import tempfile

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.rpc import error_details_pb2  # noqa: F401, known to json_format once it is imported
from grpc_status import rpc_status
from grpc_tools import protoc

CALL_TIMEOUT_S = 20
PACKAGE = "bongsu.v1"


class Refused(Exception):
    """A status other than OK; `details` by the short name of their type."""

    def __init__(self, error):
        status = rpc_status.from_call(error)
        self.code, self.message = error.code().name, error.details() or ""
        self.details = {}
        for detail in status.details if status else ():
            as_json = json_format.MessageToDict(detail)
            self.details[as_json.pop("@type").rsplit(".", 1)[-1]] = as_json
        self.reason = self.details.get("ErrorInfo", {}).get("reason", "")
        super().__init__(f"{self.code} {self.reason}: {self.message}")


class Contract:
    """The services of a descriptor pool, wherever that is from: proto files, or a server's reflection."""

    def __init__(self, pool, services):
        self.pool = pool
        found = [pool.FindServiceByName(f"{PACKAGE}.{name}") for name in services]
        self.methods = {f"{s.name}/{m.name}": m for s in found for m in s.methods}

    @classmethod
    def of_files(cls, root):
        """Compiles proto/, comments included: Contract.comments has what is above each service."""
        files = sorted(str(path.relative_to(root)) for path in root.glob("bongsu/v1/*.proto"))
        with tempfile.TemporaryDirectory() as directory:
            out = pathlib.Path(directory) / "set"
            flags = [f"-I{root}", f"--descriptor_set_out={out}", "--include_imports", "--include_source_info"]
            well_known = pathlib.Path(protoc.__file__).parent / "_proto"
            if protoc.main(["protoc", *flags, f"-I{well_known}", *files]) != 0:
                raise SystemExit("the proto files do not compile")
            descriptors = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
        pool, services, comments = descriptor_pool.DescriptorPool(), [], {}
        for file in descriptors.file:
            pool.Add(file)
            services += [service.name for service in file.service]
            above = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
            for index, service in enumerate(file.service):
                comments[service.name] = above.get((6, index), "")
        contract = cls(pool, services)
        contract.comments = comments
        return contract

    def call(self, channel, name, request, timeout=CALL_TIMEOUT_S, takes=None, metadata=()):
        """The answer; of a stream of answers the list of them, or of the first `takes` where it does not end. `request` is a list
        where the client streams."""
        method = self.methods[name]
        messages = request if isinstance(request, list) else [request]
        sent = [self.message(method.input_type, message) for message in messages]
        streams = ("stream" if method.client_streaming else "unary", "stream" if method.server_streaming else "unary")
        answer_class = message_factory.GetMessageClass(method.output_type)
        stub = getattr(channel, "_".join(streams))(
            f"/{method.containing_service.full_name}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer_class.FromString,
        )
        try:
            answer = stub(iter(sent) if method.client_streaming else sent[0], timeout=timeout, metadata=metadata)
            if not method.server_streaming:
                return as_json(answer)
            taken = [as_json(one) for one in itertools.islice(answer, takes)]
            if takes:
                answer.cancel()
            return taken
        except grpc.RpcError as error:
            raise Refused(error) from None

    def message(self, descriptor, fields):
        return json_format.ParseDict(fields, message_factory.GetMessageClass(descriptor)(), descriptor_pool=self.pool)

    def has_field(self, method, path):
        """Whether a request has the field that a BadRequest names, such as `audience.users.user_ids[3]`."""
        message = self.methods[method].input_type
        for step in path.split("."):
            name = "".join(itertools.takewhile(lambda letter: letter != "[", step))
            if message is None or not (name in message.fields_by_name or name in message.oneofs_by_name):
                return False
            field = message.fields_by_name.get(name)
            message = field.message_type if field else None
            if message is not None and message.GetOptions().map_entry:
                return True
        return True


def as_json(message):
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
