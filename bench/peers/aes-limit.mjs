// The limit that the cipher sets: how long one core takes to encrypt and to decrypt so many bytes with AES-256-GCM of Node's
// OpenSSL, in records of 32 KiB, in memory that is in its cache. A JSON line for each size in bytes that is given.
import { createCipheriv, createDecipheriv } from 'node:crypto';

const record = Buffer.alloc(32 * 1024, 1);
const key = Buffer.alloc(32, 2);
const nonce = Buffer.alloc(12);

const sealed = (() => {
  const cipher = createCipheriv('aes-256-gcm', key, nonce);
  const text = cipher.update(record);
  cipher.final();
  return { text, tag: cipher.getAuthTag() };
})();

function once() {
  const cipher = createCipheriv('aes-256-gcm', key, nonce);
  cipher.update(record);
  cipher.final();
  const decipher = createDecipheriv('aes-256-gcm', key, nonce).setAuthTag(sealed.tag);
  decipher.update(sealed.text);
  decipher.final();
}

for (let warm = 0; warm < 2000; warm++) once();
for (const bytes of process.argv.slice(2).map(Number)) {
  const records = Math.max(1, Math.round(bytes / record.length));
  const times = Array.from({ length: 15 }, () => {
    const startedAt = performance.now();
    for (let n = 0; n < records; n++) once();
    return ((performance.now() - startedAt) * 1000 * bytes) / (records * record.length);
  });
  const us = times.sort((a, b) => a - b)[7];
  console.log(JSON.stringify({ bytes, us }));
}
