/**
 * Reads a variable of the environment. Undefined in Deno if the program lacks the permission, because Deno
 * then throws.
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
