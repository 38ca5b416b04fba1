// Where in the user's program a collective was called: file and line of the first frame outside of this package, and
// outside of node_modules if there is one. Looking at the stack costs some microseconds, as much as a whole named
// collective. So it is done for a name that has not been seen yet, for calls that come at least `restMs` after the last
// look, and for blocking calls that have to wait long (they are still on the stack then); others of a known name show
// what was seen last. Only text is kept: a captured stack would keep alive whatever its functions can reach.

import { fileURLToPath } from 'node:url';

/** Frames of this package and of a framework may lie above the user's. */
const frames = 32;
const restMs = 1;
const namesLimit = 10_000;

/** Finds the caller of this package. */
export type CallSiteFinder = () => string | undefined;

/** `ownRoot`: the URL of the folder whose files are not the user's. */
export function callSiteFinder(ownRoot: string = new URL('../..', import.meta.url).href): CallSiteFinder {
  const ownPath = ownRoot.startsWith('file:') ? fileURLToPath(ownRoot) : ownRoot;
  const isOwn = (file: string) => file.startsWith(ownRoot) || file.startsWith(ownPath);
  return () => {
    const sites = capture();
    let inPackage: NodeJS.CallSite | undefined;
    for (const site of sites) {
      const file = site.getFileName();
      if (file == null || file.startsWith('node:') || isOwn(file)) continue;
      if (!file.includes('/node_modules/')) return textOf(site);
      inPackage ??= site;
    }
    return inPackage === undefined ? undefined : textOf(inPackage);
  };
}

/** Call sites of one rank, found as often as it is cheap. */
export class CallSites {
  readonly #find: CallSiteFinder;
  readonly #known = new Map<string, string | undefined>();
  #lookedAtMs = 0;

  constructor(find: CallSiteFinder = callSiteFinder()) {
    this.#find = find;
  }

  /** For a request of this name (undefined: it has none) that is being made now. */
  of(name: string | undefined, nowMs: number): string | undefined {
    const isKnown = name !== undefined && this.#known.has(name);
    if (nowMs - this.#lookedAtMs < restMs && (name === undefined || isKnown)) {
      return name === undefined ? undefined : this.#known.get(name);
    }
    const site = this.look();
    this.#lookedAtMs = nowMs;
    if (name !== undefined && (isKnown || this.#known.size < namesLimit)) this.#known.set(name, site);
    return site;
  }

  /** Looks in any case. */
  look(): string | undefined {
    try {
      return this.#find();
    } catch {
      return undefined; // somebody else has changed how stacks are made
    }
  }
}

function capture(): readonly NodeJS.CallSite[] {
  const { stackTraceLimit, prepareStackTrace } = Error;
  const holder: { stack?: unknown } = {};
  try {
    Error.stackTraceLimit = frames;
    Error.prepareStackTrace = (_, sites) => sites;
    Error.captureStackTrace(holder, capture);
    return Array.isArray(holder.stack) ? (holder.stack as NodeJS.CallSite[]) : [];
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    if (prepareStackTrace === undefined) Reflect.deleteProperty(Error, 'prepareStackTrace');
    else Error.prepareStackTrace = prepareStackTrace;
  }
}

function textOf(site: NodeJS.CallSite): string {
  const file = site.getFileName() ?? '';
  return `${file.startsWith('file:') ? fileURLToPath(file) : file}:${site.getLineNumber() ?? 0}`;
}
