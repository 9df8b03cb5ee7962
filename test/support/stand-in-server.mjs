import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePort } from './free-port.mjs';

/** The stand-in of a server in a separate process, which can be killed, stopped and started again. */
export class StandInServer {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #program;
  #folder;
  port = 0;

  /** @param {'mongodb' | 'dynamodb'} name The folder of its program. */
  constructor(name) {
    this.#program = new URL(`${name}/process.mjs`, import.meta.url);
    this.#folder = mkdtempSync(path.join(os.tmpdir(), `stripelock-${name}-`));
  }

  /** @param {'mongodb' | 'dynamodb'} name */
  static async start(name) {
    const server = new StandInServer(name);
    server.port = await freePort();
    await server.start();
    return server;
  }

  get #journal() {
    return path.join(this.#folder, 'journal');
  }

  /** Starts it again on the same port, after `kill`, with the data that it had. */
  async start() {
    const child = fork(this.#program, [String(this.port), this.#journal]);
    this.#child = child;
    // However this process ends, unless it is killed.
    process.on('exit', this.#end);
    const [message] = await Promise.race([once(child, 'message'), once(child, 'exit')]);
    if (message !== 'ready') throw new Error(`the stand-in did not start: ${message}`);
  }

  /**
   * Sets properties of the running stand-in, if its program knows them. Resolves when they are set.
   *
   * @param {object} properties
   */
  async set(properties) {
    const child = this.#child;
    if (child === undefined) throw new Error('the stand-in does not run');
    const over = new AbortController();
    const { signal } = over;
    const answered = Promise.race([once(child, 'message', { signal }), once(child, 'exit', { signal })]);
    child.send(properties);
    const [message] = await answered.finally(() => over.abort());
    if (message !== 'set') throw new Error(`the stand-in has ended: ${message}`);
  }

  /** @param {NodeJS.Signals} name */
  signal(name) {
    this.#child?.kill(name);
  }

  async kill() {
    const child = this.#child;
    this.#child = undefined;
    process.off('exit', this.#end);
    if (child === undefined) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** To be called while it does not run. */
  loseData() {
    rmSync(this.#journal, { force: true });
  }

  async stop() {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #end = () => void this.#child?.kill('SIGKILL');
}
