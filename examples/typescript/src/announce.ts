// Registers devices, announces something to them, and follows it to its end.

import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { credentials, loadPackageDefinition, type ServiceError } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { MAX_CALLS, delayMs, pause, withRetries } from "./calls.js";
import { maySucceedLater, refusal, text } from "./errors.js";
import type { ProtoGrpcType as BroadcastProto } from "./generated/broadcast.js";
import type { BroadcastStatus__Output as Status } from "./generated/bongsu/v1/BroadcastStatus.js";
import type { BroadcastServiceClient } from "./generated/bongsu/v1/BroadcastService.js";
import type { CreateBroadcastResponse__Output as CreateBroadcastResponse } from "./generated/bongsu/v1/CreateBroadcastResponse.js";
import type { DeadLetter__Output as DeadLetter } from "./generated/bongsu/v1/DeadLetter.js";
import type { DeliveryServiceClient } from "./generated/bongsu/v1/DeliveryService.js";
import type { DeviceServiceClient } from "./generated/bongsu/v1/DeviceService.js";
import type { ListDeadLettersResponse__Output as ListDeadLettersResponse } from "./generated/bongsu/v1/ListDeadLettersResponse.js";
import type { RegisterDeviceResponse__Output as RegisterDeviceResponse } from "./generated/bongsu/v1/RegisterDeviceResponse.js";
import type { StreamStatusResponse__Output as StreamStatusResponse } from "./generated/bongsu/v1/StreamStatusResponse.js";
import type { ProtoGrpcType as DeliveryProto } from "./generated/delivery.js";
import type { ProtoGrpcType as DeviceProto } from "./generated/device.js";

// A status stream lasts as long as its broadcast; this ends one that we forgot.
const WATCH_TIMEOUT_MS = 3_600_000;

// `longs: String`, since ids have more digits than a JavaScript number keeps. The same options made the types.
const definition = loadSync(["bongsu/v1/broadcast.proto", "bongsu/v1/delivery.proto", "bongsu/v1/device.proto"], {
  includeDirs: [fileURLToPath(new URL("../../../proto", import.meta.url))],
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
  keepCase: true,
});
const { v1 } = (loadPackageDefinition(definition) as unknown as BroadcastProto & DeliveryProto & DeviceProto).bongsu;

/** Registering again is harmless: the same token of the same user is the same device. */
async function register(devices: DeviceServiceClient, provider: string, user: string, tokens: string[]): Promise<void> {
  for (const token of tokens) {
    const registration = { user_id: user, provider, token, consent: true };
    const answer = await withRetries<RegisterDeviceResponse>((options, done) =>
      devices.RegisterDevice({ registration }, options, done),
    );
    console.log(`device ${answer.device?.id} is ${answer.created ? "new" : "known"}`);
  }
}

/** The key is made before the first call and stays the same in all of them: nobody is notified twice. */
async function announce(broadcasts: BroadcastServiceClient, key: string, user: string, title: string): Promise<string> {
  const request = {
    idempotency_key: key,
    title,
    body: "The beacon is lit",
    data: { url: "https://example.com/news" },
    audience: { users: { user_ids: [user] } },
    ttl: { seconds: 3600 },
  };
  const answer = await withRetries<CreateBroadcastResponse>((options, done) =>
    broadcasts.CreateBroadcast(request, options, done),
  );
  console.log(`broadcast ${answer.broadcast?.id} is ${answer.replayed ? "known" : "accepted"}`);
  return answer.broadcast?.id ?? "0";
}

/** Every message is the whole status, so a stream that broke is simply opened again, at any sender. */
async function watch(deliveries: DeliveryServiceClient, broadcastId: string): Promise<Status> {
  for (let failures = 0; ; ) {
    try {
      const deadline = Date.now() + WATCH_TIMEOUT_MS;
      const stream = deliveries.StreamStatus({ broadcast_id: broadcastId }, { deadline });
      for await (const { status } of stream as AsyncIterable<StreamStatusResponse>) {
        failures = 0;
        if (!status) continue;
        console.log(`${status.counts?.sent} sent, ${status.counts?.pending} pending, ${status.counts?.dead} dead`);
        if (status.state === "BROADCAST_STATE_COMPLETED" || status.state === "BROADCAST_STATE_CANCELLED") return status;
      }
    } catch (error) {
      failures++;
      if (failures === MAX_CALLS || !maySucceedLater(refusal(error as ServiceError))) throw error;
      await pause(delayMs(failures));
    }
  }
}

/** All pages of them. */
async function* deadLetters(deliveries: DeliveryServiceClient, broadcastId: string): AsyncGenerator<DeadLetter> {
  let token = "";
  do {
    const request = { broadcast_id: broadcastId, page_token: token };
    const page: ListDeadLettersResponse = await withRetries<ListDeadLettersResponse>((options, done) =>
      deliveries.ListDeadLetters(request, options, done),
    );
    yield* page.dead_letters;
    token = page.next_page_token;
  } while (token !== "");
}

async function main(): Promise<void> {
  const { BONGSU_INTAKE = "127.0.0.1:7070", BONGSU_SENDER = "127.0.0.1:7080", BONGSU_KEY = randomUUID() } = process.env;
  const [intake, sender] = [BONGSU_INTAKE, BONGSU_SENDER].map((address) => address.replace(/^http:\/\//, ""));
  const plain = credentials.createInsecure();
  const broadcasts = new v1.BroadcastService(intake, plain);
  const devices = new v1.DeviceService(intake, plain);
  const deliveries = new v1.DeliveryService(sender, plain);
  try {
    // The simulator refuses what begins with `rejected-`, so that there is a dead letter to look at.
    await register(devices, process.env.BONGSU_PROVIDER ?? "push", "ts-user", ["ts-phone", "rejected-ts"]);
    const id = await announce(broadcasts, BONGSU_KEY, "ts-user", process.argv[2] ?? "Hello from TypeScript");
    await watch(deliveries, id);
    for await (const letter of deadLetters(deliveries, id)) {
      console.log(`device ${letter.device_id} of ${letter.user_id} was given up: ${letter.reason} ${letter.code}`);
    }
  } catch (error) {
    console.error(text(refusal(error as ServiceError)));
    process.exitCode = 1;
  } finally {
    for (const client of [broadcasts, devices, deliveries]) client.close();
  }
}

await main();
