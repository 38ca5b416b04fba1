// Texts for parsers: garbage, JSON, and objects that look like a message of ours with any fields.

import fc from 'fast-check';

const names = [
  'id',
  'key',
  'value',
  'from',
  'failure',
  'rank',
  'record',
  'departure',
  'status',
  'ageMs',
  'data',
];

/** `tag` is the field by which messages are told apart, `words` what it may be. */
export function randomMessage(tag: string, words: readonly string[]): fc.Arbitrary<string> {
  const field = fc.oneof(
    fc.integer(),
    fc.double(),
    fc.string({ maxLength: 8 }),
    fc.boolean(),
    fc.constant(null),
  );
  const fields = fc.dictionary(
    fc.constantFrom(...names),
    fc.oneof(field, fc.array(field, { maxLength: 3 })),
    {
      maxKeys: 5,
    },
  );
  return fc.oneof(
    fc.string({ maxLength: 30 }),
    fc.json({ maxDepth: 2 }),
    fc
      .tuple(fc.constantFrom(...words), fields)
      .map(([word, rest]) => JSON.stringify({ [tag]: word, ...rest })),
  );
}
