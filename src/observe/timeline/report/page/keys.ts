// Keys on the timeline. Letters are those of chrome://tracing and Perfetto (w, a, s, d), besides arrows and signs.

const commands = {
  ArrowLeft: 'left',
  a: 'left',
  ArrowRight: 'right',
  d: 'right',
  ArrowUp: 'up',
  ArrowDown: 'down',
  '+': 'nearer',
  '=': 'nearer',
  w: 'nearer',
  '-': 'farther',
  s: 'farther',
  '0': 'all',
  '1': 'step',
  Home: 'start',
  End: 'end',
  '/': 'search',
  n: 'next',
  N: 'previous',
  ']': 'later',
  '[': 'earlier',
  f: 'full',
  Escape: 'leave',
} as const;
export type Command = (typeof commands)[keyof typeof commands];

/** Undefined: not a key of ours. */
export function commandOf({
  key,
  ctrlKey,
  metaKey,
  altKey,
}: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey'>): Command | undefined {
  if (ctrlKey || metaKey || altKey) return undefined;
  return Object.hasOwn(commands, key) ? commands[key as keyof typeof commands] : undefined;
}
