// Names chosen by users, such as those of tensors, made safe to print.

/** Replaces everything that could move a terminal's cursor or begin a new line. */
export function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '?');
}
