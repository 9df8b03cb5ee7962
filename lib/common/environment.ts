/**
 * Reads a variable of the environment. In Deno, the read throws if the program lacks the permission; this
 * function then returns undefined.
 */
export function fromEnvironment(
  read: (environment: NodeJS.ProcessEnv) => string | undefined,
): string | undefined {
  try {
    return read(process.env);
  } catch {
    return undefined;
  }
}
