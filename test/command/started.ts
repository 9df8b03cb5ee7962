import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export const COMMAND = path.resolve(import.meta.dirname, '../../dist/command.cjs');

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program that runs, and what it has written. */
export class Started {
  readonly ended: Promise<Ended>;
  #output = { stdout: '', stderr: '' };

  constructor(readonly child: ChildProcessWithoutNullStreams) {
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text: string) => (this.#output[name] += text));
    }
    child.stdin.on('error', () => undefined);
    this.ended = once(child, 'close').then(([code, signal]) => ({
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
      ...this.#output,
    }));
  }

  /** Resolves once it has written that. */
  async says(text: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = text.exec(this.#output.stdout) ?? text.exec(this.#output.stderr);
      if (found !== null) return found;
      const more = Promise.race([once(this.child.stdout, 'data'), once(this.child.stderr, 'data')]);
      const over = this.ended.then((ended) => {
        throw new Error(`ended, and never said ${text}: ${JSON.stringify(ended)}`);
      });
      over.catch(() => undefined);
      await Promise.race([more, over]);
    }
  }
}

/** A separate folder, as a home and to work in, with the command on the path of its shells. */
export class Place {
  readonly folder = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'stripelock-command-')));
  readonly lock = path.join(this.folder, 'a.lock');
  readonly #environment: NodeJS.ProcessEnv;
  readonly #started: Started[] = [];

  constructor() {
    const binaries = path.join(this.folder, 'bin');
    mkdirSync(binaries);
    symlinkSync(COMMAND, path.join(binaries, 'stripelock'));
    symlinkSync(process.execPath, path.join(binaries, 'node'));
    const { PATH } = process.env;
    this.#environment = { ...process.env, PATH: `${binaries}:${PATH}`, HOME: this.folder, LOCK: this.lock };
  }

  /** The command itself. */
  stripelock(...args: string[]): Started {
    return this.program(process.execPath, COMMAND, ...args);
  }

  program(name: string, ...args: string[]): Started {
    return this.#start(name, args);
  }

  /** `stripelock run` on the place's lock. */
  run(...args: string[]): Started {
    return this.stripelock('run', '--path', this.lock, ...args);
  }

  /** A command line. */
  shell(script: string, cwd = this.folder): Started {
    return this.#start('bash', ['-c', script], cwd);
  }

  /** Ends what still runs. */
  remove(): void {
    for (const { child } of this.#started) if (child.exitCode === null) child.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }

  #start(program: string, args: string[], cwd = this.folder): Started {
    const started = new Started(spawn(program, args, { cwd, env: this.#environment }));
    this.#started.push(started);
    return started;
  }
}
