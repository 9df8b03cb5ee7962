import { fork, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const PROGRAM = fileURLToPath(new URL('../programs/process-lock-peer.mjs', import.meta.url));

/** What a peer says of a guard that it keeps. */
export interface Got {
  readonly abandoned: boolean;
  readonly token: string;
}

interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: { code: string; message: string };
}

/** A path for a lock file that is deleted after the test. */
export function lockPath(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-process-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return path.join(folder, 'lock');
}

/** Another process with a `ProcessLock`. */
export class Peer {
  readonly child: ChildProcess;
  readonly #open = new Map<number, { resolve: (result: unknown) => void; reject: (error: Error) => void }>();
  readonly #ended: Promise<void>;
  #next = 0;

  private constructor(
    file: string,
    files: number | undefined,
    limit: number | undefined,
    within: readonly string[],
  ) {
    const [execPath, ...before] = within;
    const program = execPath === undefined ? {} : { execPath, execArgv: [...before, process.execPath] };
    this.child = fork(PROGRAM, [file, `${files ?? ''}`, `${limit ?? ''}`], program);
    this.#ended = new Promise((resolve) =>
      this.child.once('exit', (code, signal) => {
        resolve();
        for (const { reject } of this.#open.values()) reject(new Error(`ended: ${code ?? signal}`));
        this.#open.clear();
      }),
    );
    this.child.on('message', ({ id, result, error }: Answer) => {
      const waiting = this.#open.get(id);
      this.#open.delete(id);
      if (error === undefined) waiting?.resolve(result);
      else waiting?.reject(Object.assign(new Error(error.message), { code: error.code }));
    });
  }

  /** Rejects as the lock does that it makes. `within`: a command line that runs the command line after it. */
  static async start(
    file: string,
    files?: number,
    limit?: number,
    within: readonly string[] = [],
  ): Promise<Peer> {
    const peer = new Peer(file, files, limit, within);
    onTestFinished(() => peer.kill());
    await new Promise((resolve, reject) => peer.#open.set(-1, { resolve, reject }));
    return peer;
  }

  get pid(): number {
    return this.child.pid!;
  }

  ask<T = void>(action: string, ...args: unknown[]): Promise<T> {
    const id = this.#next++;
    this.child.send({ id, action, args });
    return new Promise((resolve, reject) =>
      this.#open.set(id, { resolve: resolve as (result: unknown) => void, reject }),
    );
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.#ended;
  }
}
