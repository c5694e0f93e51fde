// What a failed call says, from the details of its status.

import { status, type ServiceError } from "@grpc/grpc-js";
import protobuf from "protobufjs";

/** A status of Bongsu's. `reason` is for programs: messages may change, reasons do not. */
export interface Refusal {
  code: string;
  message: string;
  reason: string;
  metadata: Record<string, string>;
  violations: { field: string; description: string }[];
  retryAfterMs?: number;
}

// The four messages of google.rpc that Bongsu's statuses are made of; grpc-js decodes none of them by itself.
const rpc = protobuf.Root.fromJSON({
  nested: {
    Any: { fields: { type_url: { type: "string", id: 1 }, value: { type: "bytes", id: 2 } } },
    Status: { fields: { details: { rule: "repeated", type: "Any", id: 3 } } },
    ErrorInfo: {
      fields: { reason: { type: "string", id: 1 }, metadata: { keyType: "string", type: "string", id: 3 } },
    },
    FieldViolation: { fields: { field: { type: "string", id: 1 }, description: { type: "string", id: 2 } } },
    BadRequest: { fields: { field_violations: { rule: "repeated", type: "FieldViolation", id: 1 } } },
    Duration: { fields: { seconds: { type: "int64", id: 1 }, nanos: { type: "int32", id: 2 } } },
    RetryInfo: { fields: { retry_delay: { type: "Duration", id: 1 } } },
  },
} as protobuf.INamespace);

function decode(type: string, bytes: Uint8Array): Record<string, any> {
  const found = rpc.lookupType(type);
  return found.toObject(found.decode(bytes), { longs: Number, defaults: true, arrays: true, objects: true });
}

/** A call that never reached a server has a code and no details. */
export function refusal(error: ServiceError): Refusal {
  const told: Refusal = { code: status[error.code], message: error.details, reason: "", metadata: {}, violations: [] };
  const [bytes] = error.metadata?.get("grpc-status-details-bin") ?? [];
  if (bytes === undefined) return told;
  for (const any of decode("Status", bytes as Buffer).details) {
    switch (any.type_url) {
      case "type.googleapis.com/google.rpc.ErrorInfo": {
        const info = decode("ErrorInfo", any.value);
        told.reason = info.reason;
        told.metadata = info.metadata;
        break;
      }
      case "type.googleapis.com/google.rpc.BadRequest":
        told.violations = decode("BadRequest", any.value).field_violations;
        break;
      case "type.googleapis.com/google.rpc.RetryInfo": {
        const delay = decode("RetryInfo", any.value).retry_delay;
        told.retryAfterMs = delay.seconds * 1000 + delay.nanos / 1e6;
        break;
      }
    }
  }
  return told;
}

/** Whether the same call is worth making again; harmless where it carries an idempotency key. */
export function maySucceedLater(told: Refusal): boolean {
  return told.retryAfterMs !== undefined || told.code === "UNAVAILABLE" || told.code === "DEADLINE_EXCEEDED";
}

export function text(told: Refusal): string {
  const fields = told.violations.map(({ field, description }) => `\n  ${field}: ${description}`);
  return `${told.code} ${told.reason}: ${told.message}${fields.join("")}`;
}
