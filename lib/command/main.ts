#!/usr/bin/env node
// The command `stripelock`.

import { mkdirSync, readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { defaultPath, FAILED, HELP, parse, UsageError, type Request, type RunRequest } from './arguments.js';
import { inspect } from './inspect.js';
import { run, type Ending } from './run.js';
import { say } from './words.js';

async function main(args: readonly string[]): Promise<Ending> {
  const request = parse(args);
  if (request.what === 'run') {
    if (request.path === defaultPath())
      mkdirSync(path.dirname(request.path), { recursive: true, mode: 0o700 });
    return run(request);
  }
  process.stdout.write(await outputOf(request));
  return { code: 0 };
}

async function outputOf(request: Exclude<Request, RunRequest>): Promise<string> {
  switch (request.what) {
    case 'inspect':
      return `${await inspect(request)}\n`;
    case 'version':
      return `${version()}\n`;
    default:
      return HELP;
  }
}

function version(): string {
  // The program is `dist/command.cjs`, or a link to it.
  const program = realpathSync(process.argv[1]!);
  const manifest = path.join(path.dirname(program), '../package.json');
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
}

/**
 * Signals that usually end programs from outside. With any other signal, this process might overwrite the command's
 * core dump.
 */
const ENDING: readonly string[] = ['SIGHUP', 'SIGINT', 'SIGKILL', 'SIGTERM'];

async function end(): Promise<void> {
  const { code, signal } = await main(process.argv.slice(2)).catch((error: unknown): Ending => {
    const { message } = error as Error;
    say(error instanceof UsageError ? `${message}; stripelock --help explains it` : message);
    return { code: FAILED };
  });
  process.exitCode = code;
  if (signal === undefined || !ENDING.includes(signal)) return;
  // End by the same signal as the command, so that a shell sees the same.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

// The reader of the output may be gone; the command keeps running.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
void end();
