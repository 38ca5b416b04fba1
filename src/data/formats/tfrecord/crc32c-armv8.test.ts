// The checksum with the instruction of ARMv8, compiled and executed on another machine: needs a cross compiler and an emulator
// (apt-get install g++-aarch64-linux-gnu qemu-user).

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { repository } from '../../../../test/support/repository.ts';

const [compiler, emulator] = ['aarch64-linux-gnu-g++', 'qemu-aarch64'];
const missing = [compiler, emulator].filter((name) => spawnSync(name, ['--version']).status !== 0);
const skip = missing.length > 0 ? `${missing.join(' and ')} not installed` : false;

test('the C++ tests of checksums and records pass with the instruction of ARMv8', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-armv8-'));
  try {
    const native = (name: string) => join(repository, 'native', name);
    const build = (program: string, sources: readonly string[]) => {
      const flags = ['-std=c++20', '-O2', '-Wall', '-Wextra', '-Werror', '-pthread', '-static'];
      const include = ['-I', native('src'), '-I', native('test')];
      const file = join(folder, program);
      const built = spawnSync(compiler, [...flags, ...include, ...sources, '-o', file], { encoding: 'utf8' });
      assert.equal(built.status, 0, built.stderr);
      return spawnSync(emulator, [file], { encoding: 'utf8' });
    };
    const method = join(folder, 'method.cc');
    writeFileSync(
      method,
      '#include "data/crc32c.h"\n#include <cstdio>\nint main() { std::puts(hvd::crc32c_method()); }\n',
    );
    const codec = ['src/data/crc32c.cc', 'src/processor/instructions.cc'].map(native);
    assert.equal(build('method', [method, ...codec]).stdout, 'armv8\n');
    const tests = ['src/data/record-scan.cc', 'test/check-main.cc', 'test/record-scan.test.cc'].map(native);
    const { status, stdout } = build('scan', [...codec, ...tests]);
    assert.equal(status, 0, stdout);
    assert.match(stdout, /[1-9]\d* passed, 0 failed/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
