// Calls with a deadline, made again where that is safe.

import type { CallOptions, ServiceError, requestCallback } from "@grpc/grpc-js";
import { maySucceedLater, refusal, text } from "./errors.js";

// A call without a deadline waits for ever where a network swallows the answer.
const CALL_TIMEOUT_MS = 10_000;
export const MAX_CALLS = 6;
const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 10_000;

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** How long to wait after so many calls failed, with some chance in it: who failed together does not come back together. */
export function delayMs(failures: number, askedMs = 0): number {
  const own = FIRST_DELAY_MS * 2 ** (failures - 1);
  return Math.min(Math.max(own, askedMs), MAX_DELAY_MS) * (1 + Math.random() / 4);
}

/** Makes a call until it has an answer. Only for calls that may be repeated: with a key, or by their nature. */
export async function withRetries<Answer>(
  call: (options: CallOptions, done: requestCallback<Answer>) => unknown,
): Promise<Answer> {
  for (let calls = 1; ; calls++) {
    try {
      return await new Promise<Answer>((resolve, reject) => {
        const options = { deadline: Date.now() + CALL_TIMEOUT_MS };
        call(options, (error, answer) => (error ? reject(error) : resolve(answer as Answer)));
      });
    } catch (error) {
      const told = refusal(error as ServiceError);
      if (calls === MAX_CALLS || !maySucceedLater(told)) throw error;
      const wait = delayMs(calls, told.retryAfterMs);
      console.error(`${text(told)}\n  asking again in ${(wait / 1000).toFixed(1)} s`);
      await pause(wait);
    }
  }
}
