// For tests of a deadline before which something else must happen. How long that takes depends on the load of the machine, so the
// test starts with a short deadline and repeats with longer ones until it passes.

const firstMs = 300;
const maxMs = 20_000;

/** Runs `attempt` with deadlines of 0.3, 1.2, 4.8 and 19.2 s until it succeeds. Throws the error of the last attempt. */
export async function patiently(attempt: (timeoutMs: number) => Promise<void>): Promise<void> {
  for (let timeoutMs = firstMs; ; timeoutMs *= 4) {
    try {
      return await attempt(timeoutMs);
    } catch (error) {
      if (4 * timeoutMs > maxMs) throw error;
    }
  }
}
