// Where older lines come from: first the page's own memory, then the server's, in pages. In a saved page there is no server.

import type { LogLine, LogPage } from '../messages.ts';
import { type LogFilter, passes } from './log-text.ts';

export interface OlderLines {
  readonly lines: readonly LogLine[];
  /** Lines from this one on have been looked at. */
  readonly oldestId: number | undefined;
  readonly hasMore: boolean;
  /** Why there are no more, though there may be some. */
  readonly problem?: string | undefined;
}

const requestLimit = 5;
/** Where the page filters itself, it asks for more at a time. */
const unfilteredLimit = 2000;
const timeoutMs = 10_000;

export class LogSource {
  readonly #hasServer: boolean;
  readonly #fetch: (url: string) => Promise<LogPage>;

  constructor(hasServer: boolean, fetchPage: (url: string) => Promise<LogPage> = fetchJson) {
    this.#hasServer = hasServer;
    this.#fetch = fetchPage;
  }

  /** Up to `limit` lines that pass and are older than that with this id; `memory` is sorted by id. */
  async before(
    id: number | undefined,
    filter: LogFilter,
    memory: readonly LogLine[],
    limit: number,
  ): Promise<OlderLines> {
    const known = memory.filter((line) => id !== undefined && line.id < id && passes(line, filter));
    if (known.length >= limit || !this.#hasServer) {
      const lines = known.slice(-limit);
      return { lines, oldestId: lines[0]?.id ?? id, hasMore: lines.length < known.length || this.#hasServer };
    }
    let lines: LogLine[] = known;
    let before = memory[0] === undefined || (id !== undefined && id < memory[0].id) ? id : memory[0].id;
    for (let request = 0; request < requestLimit; request++) {
      let page: LogPage;
      try {
        page = await this.#fetch(urlOf(before, filter, filter.errorsOnly ? unfilteredLimit : limit));
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        return { lines, oldestId: before, hasMore: true, problem: `older ones cannot be loaded: ${reason}` };
      }
      lines = [...page.lines.filter((line) => passes(line, filter)), ...lines];
      before = page.lines[0]?.id ?? before;
      if (!page.hasMore || page.lines.length === 0) return { lines, oldestId: before, hasMore: false };
      // The server knows nothing of errors: a page may hold none.
      if (lines.length >= limit / 2) break;
    }
    return { lines, oldestId: before, hasMore: true };
  }

  /** The address of all lines of a rank or of the launcher; undefined in a saved page. */
  download(rank: number): string | undefined {
    return this.#hasServer ? `logs/${rank < 0 ? 'launcher' : rank}.txt` : undefined;
  }
}

function urlOf(before: number | undefined, { rank, search }: LogFilter, limit: number): string {
  const query = new URLSearchParams({ limit: String(limit) });
  if (before !== undefined) query.set('before', String(before));
  if (rank !== undefined) query.set('rank', String(rank));
  if (search !== '') query.set('search', search);
  return `logs?${query}`;
}

async function fetchJson(url: string): Promise<LogPage> {
  const response = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) });
  if (!response.ok) throw new Error(`the server answers ${response.status} ${response.statusText}`);
  return (await response.json()) as LogPage;
}
