import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { redisLeaseStore } from 'stripelock/redis';
import { EtcdCluster, hasEtcd } from '../support/etcd-server.mjs';
import { StandIn } from '../support/mongodb/stand-in.mjs';
import { hasMysql, MysqlServer } from '../support/mysql-server.mjs';
import { hasPostgres, PostgresServer } from '../support/postgres-server.mjs';
import { REDIS_ADVICE, redisCommand, RedisServer } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { COMMAND, Place, type Started } from './started.js';

// `stripelock run` under a lease, in a shell, on real servers.

/** Says its token, and ends when its input does. */
const UNTIL_INPUT_ENDS = ['sh', '-c', 'echo token $STRIPELOCK_TOKEN.; cat > /dev/null; echo ends'];
const CONFLICT = 75;
const LOST = 76;
/** Longer than any test. */
const LONG = ['--ttl', '10m'];

let place: Place;
beforeEach(() => {
  place = new Place();
});
afterEach(() => place.remove());

const runOn = (url: string, ...args: string[]): Started =>
  place.stripelock('run', '--store', url, '--key', 'nightly', ...args);

/** Resolves to its token. */
async function tokenOf(started: Started): Promise<bigint> {
  const [, token] = await started.says(/token (\d+)\./);
  return BigInt(token!);
}

/** One command at a time, with rising tokens, and a free key afterwards. */
async function takesTurns(url: string): Promise<void> {
  const first = runOn(url, ...LONG, '--', ...UNTIL_INPUT_ENDS);
  const token = await tokenOf(first);
  const refused = await runOn(url, '--if-available', '--', 'echo', 'not reached').ended;
  expect(refused).toMatchObject({ code: CONFLICT, stdout: '' });
  expect(refused.stderr).toMatch(
    new RegExp(`^stripelock: "nightly" is not free: .* pid ${first.child.pid} \\(sh\\) holds it, `),
  );
  const second = runOn(url, ...LONG, '--timeout', '10m', '--', ...UNTIL_INPUT_ENDS);
  await second.says(/waits for "nightly": .* holds it, and its lease ends in \d+\.\d s unless it is renewed/);
  first.child.stdin.end();
  expect(await first.ended).toMatchObject({ code: 0, signal: null, stderr: '' });
  expect(await tokenOf(second)).toBeGreaterThan(token);
  second.child.stdin.end();
  expect(await second.ended).toMatchObject({ code: 0 });
  expect(await runOn(url, '--no-wait', '--', 'sh', '-c', 'exit 3').ended).toMatchObject({
    code: 3,
    stderr: '',
  });
}

const hasShell = process.platform !== 'win32';

describe.runIf(hasShell)('commands take turns on', () => {
  it.runIf(redisCommand)('Redis', async () => {
    const server = await RedisServer.start();
    onTestFinished(() => server.stop());
    await takesTurns(`redis://127.0.0.1:${server.port}`);
  });

  it.runIf(hasPostgres)('PostgreSQL', async () => {
    const server = await PostgresServer.start();
    onTestFinished(() => server.stop());
    await takesTurns(server.url);
  });

  it.runIf(hasMysql)('MySQL', async () => {
    const server = await MysqlServer.start();
    onTestFinished(() => server.stop());
    await takesTurns(`mysql://test:test@127.0.0.1:${server.port}/test`);
  });

  it.runIf(hasEtcd)('etcd', async () => {
    const cluster = await EtcdCluster.start(1);
    onTestFinished(() => cluster.stop());
    await takesTurns(`etcd://${cluster.endpoints.map((endpoint) => new URL(endpoint).host).join(',')}`);
  });

  it('MongoDB', async () => {
    const server = await StandIn.start({ isReplicaSet: false });
    onTestFinished(() => server.stop());
    const url = new URL(server.url);
    url.pathname = '/app';
    await takesTurns(url.href);
  });

  it.runIf(process.getBuiltinModule('node:sqlite'))('a SQLite file, which is created', () =>
    takesTurns(`sqlite:${path.join(place.folder, 'leases.db')}`),
  );
});

if (redisCommand === undefined) {
  reportMissing('`stripelock run --store`', 'redis-server', REDIS_ADVICE);
} else {
  describe.runIf(hasShell)('under a lease', () => {
    let server: RedisServer;
    let url: string;
    let store: ReturnType<typeof redisLeaseStore>;
    beforeAll(async () => {
      server = await RedisServer.start();
      url = `redis://127.0.0.1:${server.port}`;
    });
    afterAll(() => server.stop());
    beforeEach(async () => {
      await server.command('FLUSHALL');
      store = redisLeaseStore({ url, timeout: 30_000 });
    });
    afterEach(() => store.close());

    const run = (...args: string[]): Started => runOn(url, ...args);
    /** Ends the lease from outside, as `leases revoke` does. */
    const revoke = () => place.stripelock('leases', 'revoke', 'nightly', '--store', url, '--yes').ended;

    it('the command ends as it would alone: by its code, or its signal', async () => {
      expect(await run('--', 'sh', '-c', 'exit 7').ended).toMatchObject({ code: 7, stderr: '' });
      expect(await run('--', 'sh', '-c', 'kill -TERM $$').ended).toMatchObject({ signal: 'SIGTERM' });
      expect(await run('--', 'no-such-command').ended).toMatchObject({ code: 127 });
      expect(await store.inspect('nightly')).toBeUndefined();
    });

    it.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const)(
      'a signal reaches the command, and the lease is released after it: %s',
      async (signal) => {
        const trap = `trap 'echo got it; exit 3' ${signal.slice(3)}; echo runs; while :; do sleep 0.05; done`;
        const started = run(...LONG, '--', 'bash', '-c', trap);
        await started.says(/runs/);
        started.child.kill(signal);
        expect(await started.ended).toEqual({ code: 3, signal: null, stdout: 'runs\ngot it\n', stderr: '' });
        expect(await store.inspect('nightly')).toBeUndefined();
      },
    );

    it('is renewed while the command runs', async () => {
      const started = run('--ttl', '3s', '--', ...UNTIL_INPUT_ENDS);
      const token = await tokenOf(started);
      for (const beats = Date.now() + 4500; Date.now() < beats;) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        expect((await store.inspect('nightly'))?.token).toBe(token);
      }
      started.child.stdin.end();
      expect(await started.ended).toMatchObject({ code: 0 });
    });

    it('a lost lease sends SIGTERM to the command, and its own code tells of the loss', async () => {
      const trap = `trap 'echo got it; exit 0' TERM; echo runs; while :; do sleep 0.05; done`;
      const started = run('--ttl', '3s', '--', 'bash', '-c', trap);
      await started.says(/runs/);
      expect(await revoke()).toMatchObject({ code: 0 });
      const { code, stdout, stderr } = await started.ended;
      expect({ code, stdout }).toEqual({ code: LOST, stdout: 'runs\ngot it\n' });
      expect(stderr).toMatch(
        /^stripelock: the lease of key "nightly" .* is not held: .*; the command gets SIGTERM\n$/,
      );
    });

    it('a lost lease sends another signal if asked to, and SIGKILL after the grace', async () => {
      const trap = `trap 'echo got it' USR1; trap '' TERM; echo runs; while :; do sleep 0.05; done`;
      const started = run('--ttl', '3s', '--on-loss', 'usr1', '--grace', '5s', '--', 'bash', '-c', trap);
      await started.says(/runs/);
      await revoke();
      await started.says(/got it/);
      expect(await started.ended).toMatchObject({ code: LOST, signal: null });
    });

    it('is lost when the server dies, and the command then ends', async () => {
      const own = await RedisServer.start();
      onTestFinished(() => own.stop());
      const started = runOn(`redis://:secret@127.0.0.1:${own.port}`, '--', 'true');
      expect((await started.ended).stderr).not.toContain('secret');
      const holder = runOn(
        `redis://127.0.0.1:${own.port}`,
        '--ttl',
        '2s',
        '--',
        'sh',
        '-c',
        'echo runs; exec sleep 600',
      );
      await holder.says(/runs/);
      await own.stop();
      const { code, stderr } = await holder.ended;
      expect(code).toBe(LOST);
      expect(stderr).toMatch(/the lease of key "nightly" .* is not held: .*; the command gets SIGTERM\n$/);
    });

    it('a command that ends just after the server died keeps its code', async () => {
      const own = await RedisServer.start();
      onTestFinished(() => own.stop());
      const holder = runOn(
        `redis://127.0.0.1:${own.port}`,
        ...LONG,
        '--',
        'sh',
        '-c',
        'echo runs; cat > /dev/null; exit 4',
      );
      await holder.says(/runs/);
      await own.stop();
      holder.child.stdin.end();
      const { code, stderr } = await holder.ended;
      expect(code).toBe(4);
      expect(stderr).toMatch(/^stripelock: the lease ends by itself within 600\.0 s: /);
    });

    it('ends after its TTL if `run` is killed', async () => {
      const killed = run('--ttl', '2s', '--', 'sh', '-c', 'echo runs; exec sleep 600');
      await killed.says(/runs/);
      killed.child.kill('SIGKILL');
      expect(await store.inspect('nightly')).toBeDefined();
      const next = run('--', 'echo', 'next');
      expect(await next.ended).toMatchObject({ code: 0, stdout: 'next\n' });
    });

    it('is released at once if the command is killed', async () => {
      const started = run(...LONG, '--', 'sh', '-c', 'echo pid $$.; exec sleep 600');
      const [, pid] = await started.says(/pid (\d+)\./);
      process.kill(Number(pid), 'SIGKILL');
      expect(await started.ended).toMatchObject({ signal: 'SIGKILL' });
      expect(await store.inspect('nightly')).toBeUndefined();
    });

    it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('%s ends one that still waits', async (signal) => {
      const holder = run(...LONG, '--', ...UNTIL_INPUT_ENDS);
      await tokenOf(holder);
      const waiter = run('--', 'echo', 'not reached');
      await waiter.says(/waits for/);
      waiter.child.kill(signal);
      expect(await waiter.ended).toMatchObject({ code: null, signal, stdout: '' });
      holder.child.stdin.end();
      expect(await holder.ended).toMatchObject({ code: 0 });
    });

    it.each([
      [['--if-available'], CONFLICT],
      [['--timeout', '100ms'], CONFLICT],
      [['--timeout', '0.1', '--conflict-exit-code', '0'], 0],
    ])('gives up as its options say: %j', async (options, code) => {
      await store.tryAcquire('nightly', 'another host', 600_000);
      const { code: ended, stdout, stderr } = await run(...options, '--', 'echo', 'not reached').ended;
      expect({ ended, stdout }).toEqual({ ended: code, stdout: '' });
      expect(stderr).toMatch(
        /^stripelock: "nightly" is not free.*: another host holds it, and its lease ends in /m,
      );
    });

    it.each([undefined, 'host 3 pid 4711 (backup.sh)'])(
      'says that a key is kept after a release: info %s',
      async (info) => {
        await store.tryAcquire('nightly', 'stripelock:kept:host 3', 600_000, info);
        const { code, stderr } = await run('--if-available', '--', 'echo', 'not reached').ended;
        expect(code).toBe(CONFLICT);
        const [, time, by] = /: it is kept for (.+) s after a release by (.+)$/m.exec(stderr)!;
        expect([Number(time) > 500, by]).toEqual([true, info ?? 'host 3']);
      },
    );

    it('runs together with others that are shared, and excludes those that are not', async () => {
      const readers = [1, 2].map(() => run('--shared', ...LONG, '--', ...UNTIL_INPUT_ENDS));
      for (const reader of readers) await tokenOf(reader);
      const refused = await run('--no-wait', '--', 'true').ended;
      expect(refused).toMatchObject({ code: CONFLICT });
      expect(refused.stderr).toMatch(
        /"nightly" is not free: it is held in shared mode, by a lease that ends in /,
      );
      for (const { child, ended } of readers) {
        child.stdin.end();
        await ended;
      }
      const writer = run(...LONG, '--', ...UNTIL_INPUT_ENDS);
      await tokenOf(writer);
      expect(await run('--shared', '--no-wait', '--', 'true').ended).toMatchObject({ code: CONFLICT });
      writer.child.stdin.end();
      await writer.ended;
    });

    it('lets as many commands run as its limit says', async () => {
      const holders = [1, 2].map(() => run('--limit', '2', ...LONG, '--', ...UNTIL_INPUT_ENDS));
      for (const holder of holders) await tokenOf(holder);
      expect(await run('--limit', '2', '--no-wait', '--', 'true').ended).toMatchObject({ code: CONFLICT });
      holders[0]!.child.stdin.end();
      await holders[0]!.ended;
      expect(await run('--limit', '2', '--no-wait', '--', 'true').ended).toMatchObject({ code: 0 });
      holders[1]!.child.stdin.end();
      await holders[1]!.ended;
    });

    it('keeps the key for its minimum, even if the command is done', async () => {
      expect(await run('--min-hold', '10m', '--', 'true').ended).toMatchObject({ code: 0 });
      expect(await run('--no-wait', '--', 'true').ended).toMatchObject({ code: CONFLICT });
    });

    it('the command gets the token, and neither the URL nor a name of it', async () => {
      const script = `STRIPELOCK_STORE=${url} stripelock run --key nightly -- sh -c 'echo token $STRIPELOCK_TOKEN. store $STRIPELOCK_STORE.'`;
      const { code, stdout } = await place.shell(script).ended;
      expect({ code, stdout }).toEqual({
        code: 0,
        stdout: expect.stringMatching(/^token \d{10,}\. store \.\n$/) as string,
      });
    });

    it.runIf(existsSync('/proc/self/cmdline'))(
      'no process shows the URL while the command runs',
      async () => {
        const started = run(...LONG, '--', ...UNTIL_INPUT_ENDS);
        await tokenOf(started);
        const shown = readFileSync(`/proc/${started.child.pid}/cmdline`, 'utf8');
        expect(shown).toContain('stripelock run -- sh');
        expect(shown).not.toContain(url);
        started.child.stdin.end();
        await started.ended;
      },
    );

    it('--path says that the lock is a file, whatever STRIPELOCK_STORE is', async () => {
      const script = `STRIPELOCK_STORE=${url} stripelock run --path a.lock -- sh -c 'echo token $STRIPELOCK_TOKEN.'`;
      expect(await place.shell(script).ended).toMatchObject({ code: 0, stdout: 'token .\n', stderr: '' });
    });

    it('a store that cannot be reached fails at once, without the password, and runs nothing', async () => {
      for (const host of ['127.0.0.1:1', new URL(url).host]) {
        const failed = await runOn(`redis://me:se%40cret@${host}`, '--', 'echo', 'not reached').ended;
        expect(failed).toMatchObject({ code: 125, stdout: '' });
        expect(failed.stderr).toMatch(/^stripelock: .+\n$/);
        expect(failed.stderr).not.toMatch(/se(%40|@)cret/);
      }
    });

    it('says what to install if there is no client package', async () => {
      cpSync(path.dirname(COMMAND), path.join(place.folder, 'dist'), { recursive: true });
      writeFileSync(path.join(place.folder, 'addon.cjs'), '');
      const started = place.shell(`node dist/command.cjs run --store ${url} --key a -- true`);
      const { code, stderr } = await started.ended;
      expect(code).toBe(125);
      expect(stderr).toContain('needs a client package, and none is installed: npm install ioredis or ');
    });
  });

  it.runIf(existsSync('/usr/bin/script'))('Ctrl+C at a terminal reaches the command once', async () => {
    const server = await RedisServer.start();
    onTestFinished(() => server.stop());
    writeFileSync(
      path.join(place.folder, 'count.cjs'),
      `let count = 0;
      process.on('SIGINT', () => {
        if (++count === 1) setTimeout(() => { console.log('count ' + count + '.'); process.exit(5); }, 300);
      });
      setInterval(() => {}, 1000);
      console.log('runs.');`,
    );
    const command = `exec stripelock run --store redis://127.0.0.1:${server.port} --key nightly -- node count.cjs`;
    const terminal = place.shell(`script -qec "${command}" /dev/null`);
    await terminal.says(/runs\./);
    terminal.child.stdin.write('\u0003');
    expect((await terminal.says(/count (\d+)\./))[1]).toBe('1');
    expect(await terminal.ended).toMatchObject({ code: 5 });
  });
}
