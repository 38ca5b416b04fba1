// Checks of what is typed on the command line of an example. A mistake ends the script with one sentence and code 2.

/** The number after a flag such as `--epochs`. */
export function wholeNumber(flag: string, text: string, least = 1): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isInteger(value) && value >= least) return value;
  return refuse(`${flag} ${text}: expected a whole number, at least ${least}`);
}

/** The word after a flag, one of those allowed. */
export function oneOf<Word extends string>(flag: string, text: string, allowed: readonly Word[]): Word {
  return allowed.find((word) => word === text) ?? refuse(`${flag} ${text}: expected ${allowed.join(', ')}`);
}

export const backends = ['auto', 'tensorflow', 'wasm', 'cpu'] as const;

function refuse(sentence: string): never {
  console.error(sentence);
  process.exit(2);
}
