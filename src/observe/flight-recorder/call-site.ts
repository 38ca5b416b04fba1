// Where in the user's program a collective was called: file and line of the first frame outside of this package, and
// outside of node_modules if there is one. Looking at the stack costs some microseconds, as much as a whole named
// collective. So it is done for a name that has not been seen yet, for calls that come at least `restMs` after the last
// look, and for blocking calls that have to wait long (they are still on the stack then); others of a known name show
// what was seen last. Only text is kept: a captured stack would keep alive whatever its functions can reach. Source maps are
// applied when somebody reads the records.

import { findSourceMap } from 'node:module';
import { fileURLToPath } from 'node:url';
import { framesBelow, ownerOfFile } from '../../caller.ts';

/** Frames of this package and of a framework may lie above the user's. */
const frames = 32;
const restMs = 1;
const namesLimit = 10_000;

/** Finds the caller of this package: file, line and column of the code that runs. */
export type CallSiteFinder = () => string | undefined;

/** `ownRoot`: the URL of the folder whose files are not the user's. */
export function callSiteFinder(ownRoot?: string): CallSiteFinder {
  const owner = ownerOfFile(ownRoot);
  const find = () => {
    let inPackage: NodeJS.CallSite | undefined;
    for (const site of framesBelow(find, frames)) {
      const whose = owner(site.getFileName() ?? '');
      if (whose === 'user') return textOf(site);
      if (whose === 'package') inPackage ??= site;
    }
    return inPackage === undefined ? undefined : textOf(inPackage);
  };
  return find;
}

/**
 * `file:line` of a call site as the user wrote it: TypeScript runs as generated code, whose source map Node has if source maps
 * are turned on, which horovodrun does for .ts files.
 */
export function writtenLine(site: string): string {
  const [, file = '', line = '', column = ''] = /^(.*):(\d+):(\d+)$/s.exec(site) ?? [];
  if (file === '') return site;
  // Source maps count from 0.
  const entry = findSourceMap(file)?.findEntry(Number(line) - 1, Number(column) - 1);
  if (entry === undefined || !('originalSource' in entry)) return `${pathOf(file)}:${line}`;
  return `${pathOf(entry.originalSource)}:${entry.originalLine + 1}`;
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
    // Promise forms run when their call has returned.
    const site = this.look() ?? (name === undefined ? undefined : this.#known.get(name));
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

function textOf(site: NodeJS.CallSite): string {
  return `${site.getFileName() ?? ''}:${site.getLineNumber() ?? 0}:${site.getColumnNumber() ?? 0}`;
}

function pathOf(file: string): string {
  return file.startsWith('file:') ? fileURLToPath(file) : file;
}
