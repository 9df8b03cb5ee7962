import { closeSync, openSync, readSync } from 'node:fs';

/** On Linux, this path leads to the binary of this process, regardless of the binary's name and location. */
const OWN_BINARY = '/proc/self/exe';
/** The type of the ELF program header that names the dynamic linker. */
const PT_INTERP = 3;
/** The maximum number of bytes to read of the dynamic linker's path. Real paths are shorter. */
const MOST_BYTES = 4096;

/**
 * The name of the folder in `prebuilds/` for this platform, such as "linux-x64-musl". The loader uses the
 * name only if no locally compiled addon loads. `scripts/install.mjs` also uses the name, if the package
 * contains prebuilt binaries.
 */
export function platformName(): string {
  const musl = process.platform === 'linux' && linksToMusl(OWN_BINARY) ? '-musl' : '';
  return `${process.platform}-${process.arch}${musl}`;
}

/**
 * Whether a binary is built for musl. The path of the dynamic linker, which the binary contains, shows this.
 * The function reads only three small parts of the file. A diagnostic report of Node would also show the C
 * library, but creating the report resolves the peer name of each open socket, which can take a minute. If
 * the file cannot be read, the result is false, because most binaries of Node are built for glibc.
 */
export function linksToMusl(binary: string): boolean {
  try {
    return interpreterOf(binary)?.includes('/ld-musl-') === true;
  } catch {
    return false;
  }
}

/** The ELF variant: 64 or 32 bits, little-endian or big-endian. */
interface Elf {
  readonly wide: boolean;
  readonly little: boolean;
}

function interpreterOf(binary: string): string | undefined {
  const file = openSync(binary, 'r');
  try {
    const header = read(file, 0, 64);
    if (header.toString('latin1', 0, 4) !== '\x7fELF') return undefined;
    const elf = { wide: header[4] === 2, little: header[5] === 1 };
    const { wide } = elf;
    const pointer = wide ? 8 : 4;
    const size = field(header, wide ? 54 : 42, 2, elf);
    const count = field(header, wide ? 56 : 44, 2, elf);
    const entries = read(file, field(header, wide ? 32 : 28, pointer, elf), size * count);
    for (let at = 0; at < entries.length; at += size) {
      if (field(entries, at, 4, elf) !== PT_INTERP) continue;
      const place = field(entries, at + (wide ? 8 : 4), pointer, elf);
      const length = field(entries, at + (wide ? 32 : 16), pointer, elf);
      return read(file, place, Math.min(length, MOST_BYTES)).toString('latin1');
    }
    return undefined;
  } finally {
    closeSync(file);
  }
}

function read(file: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, readSync(file, bytes, 0, length, position));
}

function field(bytes: Buffer, at: number, length: 2 | 4 | 8, { little }: Elf): number {
  if (length === 8) return Number(little ? bytes.readBigUInt64LE(at) : bytes.readBigUInt64BE(at));
  return little ? bytes.readUIntLE(at, length) : bytes.readUIntBE(at, length);
}
