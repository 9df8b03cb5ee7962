#!/usr/bin/env node
// The command `stripelock`.

import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { defaultPath, FAILED, HELP, parse, UsageError } from './arguments.js';
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
  process.stdout.write(request.what === 'inspect' ? `${await inspect(request)}\n` : HELP);
  return { code: 0 };
}

/** Signals by which programs are ended from outside. By any other one, this process might write a core over the command's. */
const ENDING: readonly string[] = ['SIGHUP', 'SIGINT', 'SIGKILL', 'SIGTERM'];

async function end(): Promise<void> {
  const { code, signal } = await main(process.argv.slice(2)).catch((error: unknown): Ending => {
    const { message } = error as Error;
    say(error instanceof UsageError ? `${message}; stripelock --help explains it` : message);
    return { code: FAILED };
  });
  process.exitCode = code;
  if (signal === undefined || !ENDING.includes(signal)) return;
  // As the command ended, so that a shell sees the same.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

// Whoever read the output may have gone, and the command runs on.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
void end();
