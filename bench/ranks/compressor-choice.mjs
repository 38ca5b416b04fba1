// The compressors of the bench by their short names, and the bytes that each makes a rank receive for gradients of given shapes.

export const compressorNames = ['none', 'fp16', 'bf16', 'int8', 'topk', 'powersgd'];

/** topk: one value of a hundred; powersgd: rank 4. Both with error feedback, as they are by default. */
export function chooseCompressor({ Compression }, name) {
  const { none, fp16, bf16, int8, topk, powersgd } = Compression;
  const made = { none, fp16, bf16, int8, topk: () => topk(0.01), powersgd: () => powersgd(4) }[name];
  if (made === undefined)
    throw new Error(`--compressors: no "${name}"; there are ${compressorNames.join(', ')}.`);
  return typeof made === 'function' ? made() : made;
}

/** Counted, not measured: what the algorithm moves, without the headers of the wire. */
export async function bytesReceived(compressor, shapes, size) {
  const elements = (shape) => shape.reduce((product, length) => product * length, 1);
  const total = shapes.reduce((sum, shape) => sum + elements(shape), 0);
  if (typeof compressor.reduce !== 'function') {
    const bytes = compressor.name === 'none' ? 4 : 2;
    return (2 * bytes * total * (size - 1)) / size;
  }
  // Compiled with the tests: "npm test -- --only build".
  const { compressible, reduceTogether } = await import('../../.dist-test/test/support/reduce-together.js');
  const members = Array.from({ length: size }, (_, rank) =>
    shapes.map((shape) => {
      const values = Float32Array.from({ length: elements(shape) }, (_, i) => Math.sin(i * (rank + 1)));
      return compressible(values, shape);
    }),
  );
  return Math.max(...reduceTogether(compressor, members));
}
