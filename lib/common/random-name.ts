/** The number of random bytes: enough that names are unique and cannot be guessed. */
const BYTES = 9;

/** A random string of 12 characters. */
export function randomName(): string {
  // Loaded lazily: loading it takes longer than a thread's first lock, and a thread that only locks does not need it.
  // Early versions of Node 20 lack this function.
  const { getBuiltinModule } = process as Partial<Pick<NodeJS.Process, 'getBuiltinModule'>>;
  const bytes =
    getBuiltinModule?.('node:crypto').randomBytes(BYTES) ?? crypto.getRandomValues(Buffer.alloc(BYTES));
  return bytes.toString('base64url');
}
