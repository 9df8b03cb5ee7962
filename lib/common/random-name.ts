/** The number of random bytes: enough to make names unique and impossible to guess. */
const BYTES = 9;

/** A random string of 12 characters. */
export function randomName(): string {
  // `node:crypto` is loaded lazily, because loading it takes longer than a thread's first lock. A thread that
  // only locks does not need `node:crypto`. Early versions of Node 20 lack `getBuiltinModule`.
  const { getBuiltinModule } = process as Partial<Pick<NodeJS.Process, 'getBuiltinModule'>>;
  const bytes =
    getBuiltinModule?.('node:crypto').randomBytes(BYTES) ?? crypto.getRandomValues(Buffer.alloc(BYTES));
  return bytes.toString('base64url');
}
