// What the driver of an elastic job says about it, as JSON in the control block of each host: which generation it is in, how many
// workers stand by, and its last resets. Readers check each field, because it may come from another version.

export interface JobNews {
  /** The last that was formed. */
  readonly generation: number;
  readonly resets: number;
  /** Workers that are up and wait for a seat. */
  readonly standbys: number;
  /** Why no rank trains at the moment: 'waiting for more ranks'. Undefined: they do. */
  readonly pause?: string | undefined;
  /** The oldest first. */
  readonly lastResets: readonly ResetNote[];
  /** The process that writes this: as long as it runs, so does the job. */
  readonly pid: number;
}

export interface ResetNote {
  readonly generation: number;
  /** Date.now() when it was complete. */
  readonly at: number;
  /** 'rank 1 on a was killed by SIGKILL; rank 1 on b has joined' */
  readonly what: string;
  readonly size: number;
  readonly tookMs: number;
  readonly repeatedSteps: number;
}

/** Earlier resets are only counted. */
export const notedResets = 5;
const textLimit = 400;

/** Uses at most `limitBytes`: the oldest resets are left out. */
export function encodeJobNews(news: JobNews, limitBytes: number): Buffer {
  let lastResets = news.lastResets.slice(-notedResets).map((note) => ({ ...note, what: shorten(note.what) }));
  for (;;) {
    const text = Buffer.from(JSON.stringify({ ...news, lastResets }));
    if (text.length <= limitBytes || lastResets.length === 0) return text;
    lastResets = lastResets.slice(1);
  }
}

/** Undefined if the text is not that. */
export function decodeJobNews(text: string): JobNews | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { generation, resets, standbys, pause, lastResets, pid } = value;
  if (!isCount(generation) || !isCount(resets) || !isCount(standbys) || !isCount(pid)) return undefined;
  const notes = Array.isArray(lastResets) ? lastResets.slice(-notedResets) : [];
  return {
    generation,
    resets,
    standbys,
    pid,
    lastResets: notes.flatMap(toNote),
    ...(typeof pause === 'string' ? { pause } : {}),
  };
}

function toNote(value: unknown): ResetNote[] {
  if (!isObject(value)) return [];
  const { generation, at, what, size, tookMs, repeatedSteps } = value;
  const isWhole = isCount(generation) && isCount(at) && typeof what === 'string' && isCount(size);
  if (!isWhole || !isCount(tookMs) || !isCount(repeatedSteps)) return [];
  return [{ generation, at, what, size, tookMs, repeatedSteps }];
}

function shorten(text: string): string {
  return text.length <= textLimit ? text : `${text.slice(0, textLimit - 1)}…`;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
