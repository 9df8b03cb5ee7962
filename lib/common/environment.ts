/** A variable of the environment. Undefined in Deno if the program may not read it: Deno throws then. */
export function fromEnvironment(
  read: (environment: NodeJS.ProcessEnv) => string | undefined,
): string | undefined {
  try {
    return read(process.env);
  } catch {
    return undefined;
  }
}
