// Waiting for conditions, never for time.

const PATIENCE_MS = 20_000;
const LOOK_MS = 10;

// Waits until `condition` gives something true, and returns that.
export async function until(what, condition, patienceMs = PATIENCE_MS) {
  for (const deadline = Date.now() + patienceMs; Date.now() < deadline; ) {
    const found = await condition();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  throw new Error(`not within ${patienceMs / 1000} s: ${what}`);
}
