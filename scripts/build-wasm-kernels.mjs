// Assembles the WASM SIMD kernels of src/tensor/wasm-reduce.ts into native/wasm/compiled/reduce-kernels.wasm. Run
// `node scripts/build-wasm-kernels.mjs` after you change this file. `--check` only tests whether the module is up to date.
//
// This file contains the assembler, too. An expression is a nested list ['f32x4.add', a, b]; operands are compiled first. A
// kernel is a loop over vectors of 16 bytes. It needs no loop for a remainder, because the staging memory that the kernels work
// on is padded (see wasm-reduce.ts).

import { readFileSync, writeFileSync } from 'node:fs';

// ---- instructions -------------------------------------------------------------------------------------

const v128 = 0x7b;
const i32 = 0x7f;
const valueTypes = { i32, f32: 0x7d, f64: 0x7c };

const simd = {
  'v128.load16x4_u': 4,
  'v128.load': 0,
  'v128.store': 11,
  'i32x4.splat': 17,
  'f32x4.splat': 19,
  'f64x2.splat': 20,
  'i32x4.lt_s': 57,
  'i32x4.gt_s': 59,
  'f32x4.ne': 66,
  'f32x4.lt': 67,
  'f32x4.gt': 68,
  'f64x2.ne': 72,
  'f64x2.lt': 73,
  'f64x2.gt': 74,
  'v128.and': 78,
  'v128.or': 80,
  'v128.bitselect': 82,
  'i8x16.add': 110,
  'i8x16.min_s': 118,
  'i8x16.min_u': 119,
  'i8x16.max_s': 120,
  'i8x16.max_u': 121,
  'i16x8.narrow_i32x4_u': 134,
  'i16x8.add': 142,
  'i16x8.mul': 149,
  'i16x8.min_s': 150,
  'i16x8.min_u': 151,
  'i16x8.max_s': 152,
  'i16x8.max_u': 153,
  'i32x4.shl': 171,
  'i32x4.shr_u': 173,
  'i32x4.add': 174,
  'i32x4.sub': 177,
  'i32x4.mul': 181,
  'i32x4.min_s': 182,
  'i32x4.max_s': 184,
  'i64x2.add': 206,
  'i64x2.mul': 213,
  'i64x2.lt_s': 216,
  'i64x2.gt_s': 217,
  'f32x4.add': 228,
  'f32x4.mul': 230,
  'f64x2.add': 240,
  'f64x2.mul': 242,
};

/** Bytes of an expression. `locals` maps names to numbers. */
function compile(expression, locals) {
  const [name, ...operands] = expression;
  const inner = (list) => list.flatMap((operand) => compile(operand, locals));
  switch (name) {
    case 'get':
      return [0x20, ...unsigned(locals[operands[0]])];
    case 'set':
      return [...inner(operands.slice(1)), 0x21, ...unsigned(locals[operands[0]])];
    case 'tee':
      return [...inner(operands.slice(1)), 0x22, ...unsigned(locals[operands[0]])];
    case 'i32':
      return [0x41, ...signed(operands[0])];
    case 'i32.add':
      return [...inner(operands), 0x6a];
    case 'v128.load':
    case 'v128.load16x4_u':
      // Alignment hint 0 (none needed), then the constant offset.
      return [...inner([operands[0]]), 0xfd, ...unsigned(simd[name]), 0, ...unsigned(operands[1] ?? 0)];
    case 'v128.store':
      return [...inner([operands[0], operands[1]]), 0xfd, ...unsigned(simd[name]), 0, 0];
    default:
      if (simd[name] === undefined) throw new Error(`unknown instruction ${name}`);
      return [...inner(operands), 0xfd, ...unsigned(simd[name])];
  }
}

// ---- kernels ------------------------------------------------------------------------------------------

const get = (name) => ['get', name];
const load = (name, offset) => ['v128.load', get(name), offset];
const word = (value) => ['i32x4.splat', ['i32', value | 0]];
const x = get('x');
const y = get('y');

/** (a < b or a is a NaN) ? a : b; `order` is lt for Min and gt for Max. */
const pick = (shape, order) => {
  if (shape === 'i64x2') return ['v128.bitselect', x, y, [`${shape}.${order}_s`, x, y]];
  return ['v128.bitselect', x, y, ['v128.or', [`${shape}.${order}`, x, y], [`${shape}.ne`, x, x]]];
};

const kernels = [];

/** out[i] = value(a[i], b[i]), vector by vector. */
function binary(name, value, factor) {
  kernels.push({
    name,
    params: { out: i32, a: i32, b: i32, ...(factor === undefined ? {} : { factor }), count: i32 },
    body: [
      ['set', 'x', load('a')],
      ['set', 'y', load('b')],
      ['v128.store', get('out'), value],
    ],
    steps: { out: 16, a: 16, b: 16 },
  });
}

/** out[i] = value(a[i]). `steps`: bytes of each that one iteration processes. */
function unary(name, body, steps, factor) {
  kernels.push({
    name,
    params: { out: i32, a: i32, ...(factor === undefined ? {} : { factor }), count: i32 },
    body,
    steps,
  });
}

for (const [dtype, shape] of [
  ['float32', 'f32x4'],
  ['float64', 'f64x2'],
  ['int32', 'i32x4'],
  ['int64', 'i64x2'],
]) {
  binary(`${dtype}Sum`, [`${shape}.add`, x, y]);
  binary(`${dtype}Product`, [`${shape}.mul`, x, y]);
  const isShort = dtype === 'int32';
  binary(`${dtype}Min`, isShort ? [`${shape}.min_s`, x, y] : pick(shape, 'lt'));
  binary(`${dtype}Max`, isShort ? [`${shape}.max_s`, x, y] : pick(shape, 'gt'));
}
for (const [dtype, shape, sign] of [
  ['int16', 'i16x8', 's'],
  ['uint16', 'i16x8', 'u'],
  ['int8', 'i8x16', 's'],
  ['uint8', 'i8x16', 'u'],
]) {
  binary(`${dtype}Sum`, [`${shape}.add`, x, y]);
  if (shape === 'i16x8') binary(`${dtype}Product`, [`${shape}.mul`, x, y]);
  binary(`${dtype}Min`, [`${shape}.min_${sign}`, x, y]);
  binary(`${dtype}Max`, [`${shape}.max_${sign}`, x, y]);
}
for (const [dtype, shape, scalar] of [
  ['float32', 'f32x4', 'f32'],
  ['float64', 'f64x2', 'f64'],
]) {
  const factor = [`${shape}.splat`, get('factor')];
  binary(`${dtype}SumScaled`, [`${shape}.mul`, [`${shape}.add`, x, y], factor], valueTypes[scalar]);
  unary(
    `${dtype}Scale`,
    [['v128.store', get('out'), [`${shape}.mul`, load('a'), factor]]],
    { out: 16, a: 16 },
    valueTypes[scalar],
  );
}

const shiftRight = (value, bits) => ['i32x4.shr_u', value, ['i32', bits]];
const shiftLeft = (value, bits) => ['i32x4.shl', value, ['i32', bits]];
const and = (value, mask) => ['v128.and', value, word(mask)];
const choose = (condition, yes, no) => ['v128.bitselect', yes, no, condition];

unary('bfloat16Widen', [['v128.store', get('out'), shiftLeft(['v128.load16x4_u', get('a')], 16)]], {
  out: 16,
  a: 8,
});
// The bits of a float16, shifted into a float32, have its value · 2^-112, including subnormals. Multiplying is exact.
unary(
  'float16Widen',
  [
    ['set', 'x', ['v128.load16x4_u', get('a')]],
    ['set', 'y', and(x, 0x7fff)],
    [
      'v128.store',
      get('out'),
      [
        'v128.or',
        [
          'v128.or',
          ['f32x4.mul', shiftLeft(y, 13), word(0x77800000)],
          and(['i32x4.gt_s', y, word(0x7bff)], 0x7f800000),
        ],
        shiftLeft(and(x, 0x8000), 16),
      ],
    ],
  ],
  { out: 16, a: 8 },
);

const bfloat16OfX = choose(
  ['i32x4.gt_s', and(x, 0x7fffffff), word(0x7f800000)],
  ['v128.or', shiftRight(x, 16), word(0x40)],
  shiftRight(['i32x4.add', ['i32x4.add', x, word(0x7fff)], and(shiftRight(x, 16), 1)], 16),
);
// y is the magnitude. The cases are those of float32BitsToFloat16Bits. Subnormals are rounded by adding 0.5, because its unit in
// the last place is the smallest float16 subnormal.
const float16Normal = shiftRight(
  ['i32x4.add', ['i32x4.sub', y, word(0x38000000 - 0xfff)], and(shiftRight(y, 13), 1)],
  13,
);
const float16Subnormal = ['i32x4.sub', ['f32x4.add', y, word(0x3f000000)], word(0x3f000000)];
const float16NaN = ['v128.or', and(shiftRight(y, 13), 0x1ff), word(0x7e00)];
const float16OfX = [
  'v128.or',
  and(shiftRight(x, 16), 0x8000),
  choose(
    ['i32x4.gt_s', y, word(0x7f800000)],
    float16NaN,
    choose(
      ['i32x4.gt_s', y, word(0x477fffff)],
      word(0x7c00),
      choose(['i32x4.lt_s', y, word(0x38800000)], float16Subnormal, float16Normal),
    ),
  ),
];
for (const [name, value] of [
  ['bfloat16Narrow', bfloat16OfX],
  ['float16Narrow', float16OfX],
]) {
  unary(
    name,
    [
      ['set', 'x', load('a')],
      ['set', 'y', and(x, 0x7fffffff)],
      ['set', 'z', value],
      ['set', 'x', load('a', 16)],
      ['set', 'y', and(x, 0x7fffffff)],
      ['v128.store', get('out'), ['i16x8.narrow_i32x4_u', get('z'), value]],
    ],
    { out: 16, a: 32 },
  );
}

// ---- the binary format --------------------------------------------------------------------------------

function unsigned(value) {
  const bytes = [];
  let rest = value;
  do {
    bytes.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    rest >>>= 7;
  } while (rest > 0);
  return bytes;
}

function signed(value) {
  const bytes = [];
  for (let rest = value; ; rest >>= 7) {
    const low = rest & 0x7f;
    const isLast = rest >> 6 === 0 || rest >> 6 === -1;
    bytes.push(isLast ? low : low | 0x80);
    if (isLast) return bytes;
  }
}

const text = (value) => [...unsigned(value.length), ...Buffer.from(value)];
const list = (items) => [...unsigned(items.length), ...items.flat()];
const section = (id, bytes) => [id, ...unsigned(bytes.length), ...bytes];

function functionBody({ params, body, steps }) {
  const names = [...Object.keys(params), 'x', 'y', 'z'];
  const locals = Object.fromEntries(names.map((name, index) => [name, index]));
  const code = [
    ...[1, 3, v128], // three locals of type v128
    ...[0x02, 0x40], // block
    ...[0x03, 0x40], // loop
    ...compile(['get', 'count'], locals),
    ...[0x45, 0x0d, 1], // i32.eqz, br_if block
    ...body.flatMap((statement) => compile(statement, locals)),
    ...Object.entries(steps).flatMap(([name, bytes]) =>
      compile(['set', name, ['i32.add', ['get', name], ['i32', bytes]]], locals),
    ),
    ...compile(['set', 'count', ['i32.add', ['get', 'count'], ['i32', -1]]], locals),
    ...[0x0c, 0], // br loop
    ...[0x0b, 0x0b, 0x0b], // end of loop, block, function
  ];
  return [...unsigned(code.length), ...code];
}

const module = Uint8Array.from([
  ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
  ...section(
    1,
    list(kernels.map(({ params }) => [0x60, ...list(Object.values(params).map((type) => [type])), 0])),
  ),
  ...section(2, list([[...text('staging'), ...text('memory'), 2, 0, 1]])), // import a memory of ≥ 1 page
  ...section(3, list(kernels.map((_, index) => unsigned(index)))),
  ...section(7, list(kernels.map(({ name }, index) => [...text(name), 0, ...unsigned(index)]))),
  ...section(10, list(kernels.map(functionBody))),
]);

// ---- the file -----------------------------------------------------------------------------------------

const name = 'native/wasm/compiled/reduce-kernels.wasm';
const target = new URL(`../${name}`, import.meta.url);
if (process.argv.includes('--check')) {
  const isCurrent = readFileSync(target).equals(module);
  if (!isCurrent) console.error(`${name} is stale: run node scripts/build-wasm-kernels.mjs`);
  process.exitCode = isCurrent ? 0 : 1;
} else {
  writeFileSync(target, module);
  console.log(`${name}: ${kernels.length} kernels, ${module.length} bytes`);
}
