import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readLog } from './etcd-log.mjs';
import { freePort } from './free-port.mjs';

export const ETCD_ADVICE =
  'Put etcd (3.4 or later) on the PATH. On Debian or Ubuntu: apt-get install etcd-server; on macOS: brew install etcd.';

/** Whether etcd is installed. */
export const hasEtcd = spawnSync('etcd', ['--version'], { stdio: 'ignore' }).status === 0;

/** Milliseconds in which a cluster must have a leader, on a busy machine. */
const LEADS_WITHIN = 60_000;
/** How long a server may take to answer a question of the tests, in milliseconds. */
const ANSWERS_WITHIN = 2000;

/**
 * A question to the JSON gateway at a port.
 *
 * @param {number} port
 * @param {string} path Below the gateway's root.
 * @param {object} body
 * @param {string} [token]
 * @returns {Promise<any>} What it answers; its shape depends on the path.
 */
export async function ask(port, path, body, token) {
  const response = await fetch(`http://127.0.0.1:${port}/v3/${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: token === undefined ? {} : { authorization: token },
    signal: AbortSignal.timeout(ANSWERS_WITHIN),
  });
  return response.json();
}

/** @param {EtcdNode} node */
const statusOf = (node) => ask(node.port, 'maintenance/status', {}).catch(() => ({}));

export const base64 = (/** @type {string} */ text) => Buffer.from(text).toString('base64');

/** One server of a cluster. */
export class EtcdNode {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #end = () => void this.#child?.kill('SIGKILL');

  /**
   * @param {string} name
   * @param {number} port For clients.
   * @param {number} peerPort
   */
  constructor(name, port, peerPort) {
    this.name = name;
    this.port = port;
    this.peerPort = peerPort;
  }

  /**
   * @param {readonly string[]} options
   * @param {string} [log] The file to which it adds what it reports.
   */
  spawn(options, log) {
    const file = log === undefined ? 'ignore' : openSync(log, 'a');
    this.#child = spawn('etcd', options, {
      stdio: ['ignore', file, file],
      env: { PATH: process.env.PATH },
    });
    if (typeof file === 'number') closeSync(file);
    // However this process ends, unless it is killed.
    process.on('exit', this.#end);
  }

  get isRunning() {
    return this.#child?.exitCode === null && this.#child.signalCode === null;
  }

  /** @param {NodeJS.Signals} name */
  signal(name) {
    this.#child?.kill(name);
  }

  async kill() {
    process.off('exit', this.#end);
    if (!this.isRunning) return;
    const ended = once(/** @type {import('node:child_process').ChildProcess} */ (this.#child), 'exit');
    this.signal('SIGKILL');
    await ended;
  }
}

/** Servers for the tests, which do not wait for the disk, and notice within a second that a leader has gone. */
export class EtcdCluster {
  /** @type {EtcdNode[]} */
  nodes = [];
  #folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-etcd-'));
  /** @type {readonly string[]} */
  #extra = [];
  /** For TLS, as well; 0 for none. */
  securePort = 0;
  /**
   * The folder that the servers write to what they do.
   *
   * @type {string | undefined}
   */
  #logs;

  /**
   * @param {number} [count] Of servers.
   * @param {readonly string[]} [extra] Options. With a certificate, a single server also has a port for TLS.
   * @param {string} [logs] The folder that the servers write to what they do, in every detail.
   */
  static async start(count = 1, extra = [], logs = undefined) {
    const cluster = new EtcdCluster();
    cluster.#logs = logs;
    if (logs !== undefined) mkdirSync(logs, { recursive: true });
    cluster.#extra = extra;
    if (extra.includes('--cert-file')) cluster.securePort = await freePort();
    for (let i = 0; i < count; i++) {
      cluster.nodes.push(new EtcdNode(`n${i}`, await freePort(), await freePort()));
    }
    await cluster.start();
    return cluster;
  }

  get port() {
    return /** @type {EtcdNode} */ (this.nodes[0]).port;
  }

  get endpoints() {
    return this.nodes.map(({ port }) => `http://127.0.0.1:${port}`);
  }

  /** Starts all that were killed, with their data. Resolves when each follows the same leader. */
  async start() {
    for (const node of this.nodes) if (!node.isRunning) this.startNode(node);
    const until = performance.now() + LEADS_WITHIN;
    while (performance.now() < until) {
      const ended = this.nodes.find(({ isRunning }) => !isRunning);
      if (ended) throw new Error(`the etcd server ${ended.name} ended by itself`);
      const leaders = await Promise.all(this.nodes.map(async (node) => (await statusOf(node)).leader));
      // A server without a leader leaves it out.
      if (leaders[0] !== undefined && new Set(leaders).size === 1) return;
      await delay(20);
    }
    throw new Error('the etcd servers do not agree on a leader');
  }

  /** @param {EtcdNode} node */
  startNode(node) {
    const peer = (/** @type {EtcdNode} */ { peerPort }) => `http://127.0.0.1:${peerPort}`;
    const plain = `http://127.0.0.1:${node.port}`;
    const client = this.securePort === 0 ? plain : `${plain},https://127.0.0.1:${this.securePort}`;
    const level = this.#logs === undefined ? 'error' : 'debug';
    const options = [
      ...['--name', node.name, '--data-dir', this.#dataOf(node)],
      ...['--listen-client-urls', client, '--advertise-client-urls', client],
      ...['--listen-peer-urls', peer(node), '--initial-advertise-peer-urls', peer(node)],
      ...['--initial-cluster', this.nodes.map((one) => `${one.name}=${peer(one)}`).join(',')],
      // With these the shortest lease has one second.
      ...['--heartbeat-interval', '50', '--election-timeout', '500'],
      ...['--unsafe-no-fsync', '--logger', 'zap', '--log-level', level, ...this.#extra],
    ];
    node.spawn(options, this.#logs && path.join(this.#logs, `${node.name}.log`));
  }

  /** @param {EtcdNode} node */
  #dataOf({ name }) {
    return path.join(this.#folder, name);
  }

  /** The servers' agreed entries since they were empty. */
  agreed() {
    return readLog(this.nodes.map((node) => this.#dataOf(node)));
  }

  /** The servers by the last 16 bits of their ids. */
  async byId() {
    const ids = this.nodes.map(async (node) => {
      const { header } = await statusOf(node);
      return /** @type {[bigint, EtcdNode]} */ ([BigInt(header?.member_id ?? 0) & 0xffffn, node]);
    });
    return new Map(await Promise.all(ids));
  }

  /** The server that leads, when one does and the others know it. */
  async leader() {
    const until = performance.now() + LEADS_WITHIN;
    while (performance.now() < until) {
      const running = this.nodes.filter(({ isRunning }) => isRunning);
      for (const node of running) {
        const { leader, header } = await statusOf(node);
        if (leader !== undefined && leader === header.member_id) return node;
      }
      await delay(20);
    }
    throw new Error('etcd has no leader');
  }

  /** @param {NodeJS.Signals} name */
  signal(name) {
    for (const node of this.nodes) node.signal(name);
  }

  /** Resolves when no server answers any more: a busy machine stops them a little after the signal. */
  async pause() {
    this.signal('SIGSTOP');
    for (const endpoint of this.endpoints) {
      const answers = () =>
        fetch(`${endpoint}/health`, { signal: AbortSignal.timeout(500) }).then(
          () => true,
          () => false,
        );
      while (await answers());
    }
  }

  async kill() {
    await Promise.all(this.nodes.map((node) => node.kill()));
  }

  /**
   * All data is lost, and revisions restart.
   *
   * @param {() => unknown} [before] Called when the servers have ended.
   */
  async wipe(before = () => undefined) {
    await this.kill();
    before();
    for (const node of this.nodes) rmSync(this.#dataOf(node), { recursive: true, force: true });
    await this.start();
  }

  async stop() {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
