import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface ProgramResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Milliseconds. */
  readonly elapsed: number;
}

/** Milliseconds after which a program that has not ended hangs. */
const HANGS = 30_000;

/** Runs a script of `test/programs` in a separate process to its end. Kills it after `timeout` milliseconds. */
export function runProgram(
  name: string,
  args: readonly string[] = [],
  nodeOptions: readonly string[] = [],
  timeout = HANGS,
  environment: NodeJS.ProcessEnv = {},
): Promise<ProgramResult> {
  const path = fileURLToPath(new URL(`../programs/${name}`, import.meta.url));
  return runNode([...nodeOptions, path, ...args], timeout, environment);
}

export function runNode(
  args: readonly string[],
  timeout = HANGS,
  environment: NodeJS.ProcessEnv = {},
  cwd?: string,
): Promise<ProgramResult> {
  const start = performance.now();
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      args,
      { timeout, killSignal: 'SIGKILL', env: { ...process.env, ...environment }, ...(cwd && { cwd }) },
      (_error, stdout, stderr) => {
        const { exitCode: code, signalCode: signal } = child;
        resolve({ code, signal, stdout, stderr, elapsed: performance.now() - start });
      },
    );
  });
}
