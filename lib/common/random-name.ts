/** Random bytes of a name: nobody guesses or repeats one. */
const BYTES = 9;

/** A random text of 12 characters. */
export function randomName(): string {
  // Not imported: a thread that only locks would load it for nothing, and that takes longer than its first lock. Early
  // versions of Node 20 do not have this function.
  const { getBuiltinModule } = process as Partial<Pick<NodeJS.Process, 'getBuiltinModule'>>;
  const bytes =
    getBuiltinModule?.('node:crypto').randomBytes(BYTES) ?? crypto.getRandomValues(Buffer.alloc(BYTES));
  return bytes.toString('base64url');
}
