// Splits the text of --mpi-args into words as a shell does, with quotes and backslashes. Nothing is expanded.

import { HorovodError } from '../../errors.ts';

/** `source` names the text in errors. */
export function splitWords(text: string, source: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote: string | undefined;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at] as string;
    if (letter === '\\' && quote !== "'") {
      const next = text[++at];
      if (next === undefined) throw wrong(text, source, 'ends with a backslash');
      // Within double quotes, a backslash is literal before most characters.
      word = `${word ?? ''}${quote === '"' && !/["\\$`]/.test(next) ? '\\' : ''}${next}`;
    } else if (quote !== undefined) {
      if (letter === quote) quote = undefined;
      else word += letter;
    } else if (letter === '"' || letter === "'") {
      quote = letter;
      word ??= '';
    } else if (/\s/.test(letter)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = `${word ?? ''}${letter}`;
    }
  }
  if (quote !== undefined) throw wrong(text, source, `has an unclosed ${quote}`);
  return word === undefined ? words : [...words, word];
}

function wrong(text: string, source: string, what: string): HorovodError {
  return new HorovodError('ERR_HVD_SETTING', `${source} ${JSON.stringify(text)} ${what}.`);
}
