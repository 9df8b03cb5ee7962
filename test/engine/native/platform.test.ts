import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { linksToMusl, platformName } from '../../../unbundled/engine/native/platform.js';
import { makeFolder, removeFolder } from '../../support/package-copy.js';

describe('the platform, as the folder of a prebuilt binary names it,', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await makeFolder();
  });

  afterAll(() => removeFolder(folder));

  it('agrees with a diagnostic report of this process', () => {
    const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
    const musl = process.platform === 'linux' && header.glibcVersionRuntime === undefined;
    expect(platformName()).toBe(`${process.platform}-${process.arch}${musl ? '-musl' : ''}`);
  });

  it('distinguishes musl from glibc by a binary’s dynamic linker, for 32 and 64 bits and both byte orders', async () => {
    const file = path.join(folder, 'binary');
    for (const wide of [false, true]) {
      for (const little of [false, true]) {
        for (const [linker, musl] of [
          ['/lib/ld-musl-x86_64.so.1', true],
          ['/nix/store/abc-musl-1.2.5/lib/ld-musl-aarch64.so.1', true],
          ['/lib64/ld-linux-x86-64.so.2', false],
          ['/lib/ld64.so.1', false],
        ] as const) {
          await writeFile(file, binaryWith(linker, wide, little));
          expect(linksToMusl(file), `${linker}, wide ${wide}, little ${little}`).toBe(musl);
        }
      }
    }
  });

  it('is one with glibc where the binary cannot be read', async () => {
    const whole = binaryWith('/lib/ld-musl-x86_64.so.1', true, true);
    const file = path.join(folder, 'odd');
    const odd = [Buffer.alloc(0), Buffer.from('#!/bin/sh\n'), whole.subarray(0, 4), whole.subarray(0, 70)];
    for (const at of [32, 54, 56, 200, 208, 232]) {
      const broken = Buffer.from(whole);
      broken.fill(0xff, at, at + 2);
      odd.push(broken);
      odd.push(Buffer.from(broken).fill(0, at, at + 2));
    }
    for (const bytes of odd) {
      await writeFile(file, bytes);
      expect(() => linksToMusl(file)).not.toThrow();
    }
    await writeFile(file, odd[0]!);
    expect(linksToMusl(file)).toBe(false);
    expect(linksToMusl(path.join(folder, 'missing'))).toBe(false);
    expect(linksToMusl(folder)).toBe(false);
  });
});

/** The part of an ELF file that names its dynamic linker, after another program header. */
function binaryWith(linker: string, wide: boolean, little: boolean): Buffer {
  const bytes = Buffer.alloc(400 + linker.length + 1);
  const put = (at: number, length: 2 | 4 | 8, value: number): void => {
    if (length === 8 && little) bytes.writeBigUInt64LE(BigInt(value), at);
    else if (length === 8) bytes.writeBigUInt64BE(BigInt(value), at);
    else if (little) bytes.writeUIntLE(value, at, length);
    else bytes.writeUIntBE(value, at, length);
  };
  const pointer = wide ? 8 : 4;
  const size = wide ? 56 : 32;
  const interpreter = 144 + size;
  bytes.write('\x7fELF', 'latin1');
  bytes[4] = wide ? 2 : 1;
  bytes[5] = little ? 1 : 2;
  put(wide ? 32 : 28, pointer, 144);
  put(wide ? 54 : 42, 2, size);
  put(wide ? 56 : 44, 2, 2);
  put(144, 4, 6);
  put(interpreter, 4, 3);
  put(interpreter + (wide ? 8 : 4), pointer, 400);
  put(interpreter + (wide ? 32 : 16), pointer, linker.length + 1);
  bytes.write(linker, 400, 'latin1');
  return bytes;
}
