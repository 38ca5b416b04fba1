// The module of the WASM backend installs listeners that rethrow uncaught errors. Because of them, a failed rank exits with code
// 7 instead of 1, its stack points to the listener, and the user's own listeners may be skipped. They exist for C programs that
// call exit(), which a backend never does, so we remove them.

const events = ['uncaughtException', 'unhandledRejection'] as const;

export function removeRethrowingListeners(): void {
  for (const event of events) {
    for (const listener of process.rawListeners(event)) {
      if (isRethrowing(String(listener))) process.removeListener(event, listener as () => void);
    }
  }
}

/** Recognizes the listeners that Emscripten generates, minified or not. */
function isRethrowing(source: string): boolean {
  const text = source.replaceAll(/\s+/g, '');
  return (
    text === 'function(reason){throwreason;}' ||
    text === 'function(reason){throwreason}' ||
    /^function\(ex\)\{if\(!\(exinstanceofExitStatus\)\)\{throwex;?\}\}$/.test(text)
  );
}
