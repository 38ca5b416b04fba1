import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { readUserKey } from './user-key.ts';

function temporaryHome(t: TestContext): string {
  const home = mkdtempSync(join(tmpdir(), 'hvd-home-'));
  t.after(() => rmSync(home, { recursive: true }));
  return home;
}

/** What two processes can compare. */
function keyIn(home: string): string {
  const key = readUserKey(home);
  assert.ok('secret' in key, JSON.stringify(key));
  return key.secret.hmac('compare').toString('hex');
}

function problemIn(home: string): string {
  const key = readUserKey(home);
  assert.ok('problem' in key);
  return key.problem;
}

test('the first use makes a key that only this user can read, and later uses find it', (t) => {
  const [home, another] = [temporaryHome(t), temporaryHome(t)];
  const key = keyIn(home);
  assert.equal(keyIn(home), key);
  assert.notEqual(keyIn(another), key);
  assert.equal(statSync(join(home, '.horovod')).mode & 0o777, 0o700);
  assert.equal(statSync(join(home, '.horovod/key')).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(join(home, '.horovod')), ['key']);
});

describe('a key is not used', () => {
  test('if others may enter its directory', (t) => {
    const home = temporaryHome(t);
    keyIn(home);
    chmodSync(join(home, '.horovod'), 0o755);
    assert.match(problemIn(home), /\.horovod is not a directory that only its owner, this user, may enter/);
  });

  test('if others may read it', (t) => {
    const home = temporaryHome(t);
    keyIn(home);
    chmodSync(join(home, '.horovod/key'), 0o644);
    assert.match(problemIn(home), /key is not a file that only its owner, this user, may read/);
  });

  test('if it or its directory is a link to somewhere else', (t) => {
    const [home, elsewhere] = [temporaryHome(t), temporaryHome(t)];
    keyIn(elsewhere);
    symlinkSync(join(elsewhere, '.horovod'), join(home, '.horovod'));
    assert.match(problemIn(home), /is not a directory/);
    rmSync(join(home, '.horovod'));
    mkdirSync(join(home, '.horovod'), { mode: 0o700 });
    symlinkSync(join(elsewhere, '.horovod/key'), join(home, '.horovod/key'));
    assert.match(problemIn(home), /key cannot be read or written \(ELOOP\)/);
  });

  test('if it is not one, or there is no home', (t) => {
    const home = temporaryHome(t);
    keyIn(home);
    writeFileSync(join(home, '.horovod/key'), 'my key');
    assert.match(problemIn(home), /does not hold 64 hex digits/);
    assert.match(problemIn('/nonexistent'), /cannot be created \(ENOENT\)/);
  });
});
