#!/usr/bin/env node
// The command `stripelock`.

import { mkdirSync, readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { defaultPath, FAILED, HELP, parse, UsageError, type PlainRequest } from './arguments.js';
import { inspect } from './inspect.js';
import { ENDING, type Ending } from './child.js';
import { run } from './run.js';
import { say } from './words.js';

/**
 * Runs the command. If `isFinal` is true, this process must exit even if requests to an unreachable server
 * are pending.
 */
async function main(args: readonly string[]): Promise<Ending & { isFinal?: boolean }> {
  const request = parse(args);
  if (request.what === 'run') {
    if (request.path === defaultPath(request.limit))
      mkdirSync(path.dirname(request.path), { recursive: true, mode: 0o700 });
    return run(request);
  }
  if ('store' in request) {
    // The stores are loaded only here, because the other subcommands do not need them.
    const { leases, runWithLease } = await import('./with-store.js');
    if (request.what === 'run with a lease') return { ...(await runWithLease(request)), isFinal: true };
    const { output, code } = await leases(request);
    process.stdout.write(`${output}\n`);
    return { code };
  }
  process.stdout.write(outputOf(request));
  return { code: 0 };
}

function outputOf(request: PlainRequest): string {
  switch (request.what) {
    case 'inspect':
      return `${inspect(request)}\n`;
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

async function end(): Promise<void> {
  const { code, signal, isFinal } = await main(process.argv.slice(2)).catch((error: unknown) => {
    const { message } = error as Error;
    say(error instanceof UsageError ? `${message}; stripelock --help explains it` : message);
    return { code: FAILED, signal: undefined, isFinal: true };
  });
  process.exitCode = code;
  // Other signals may produce a core dump. This process might then overwrite the core dump of the command.
  if (signal !== undefined && (signal === 'SIGKILL' || ENDING.includes(signal))) {
    // This process ends by the same signal as the command, so that a shell sees that signal.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else if (isFinal === true) process.exit();
}

// The reader of the output may be gone; the command keeps running.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
void end();
