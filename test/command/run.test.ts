import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProcessLock } from 'stripelock/process';
import { COMMAND, Place, type Started } from './started.js';

// `stripelock run` in a shell, as users run it.

/** A program that says that it runs, and ends when its input does. */
const UNTIL_INPUT_ENDS = ['sh', '-c', 'echo runs; cat > /dev/null; echo ends'];
/** The same, when a file `told` is there: Node ends the input of a child of a process that has ended. */
const UNTIL_TOLD = ['sh', '-c', 'echo runs; while [ ! -e told ]; do sleep 0.05; done; echo ends'];
const CONFLICT = 75;

let place: Place;
beforeEach(() => {
  place = new Place();
});
afterEach(() => place.remove());

describe.runIf(process.platform !== 'win32')('the end of the command', () => {
  it.each([0, 1, 7, 75, 255])('is passed on by its exit code: %i', async (code) => {
    expect(await place.shell(`stripelock run --path a.lock -- sh -c 'exit ${code}'`).ended).toEqual({
      code,
      signal: null,
      stdout: '',
      stderr: '',
    });
  });

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGKILL'])(
    'is passed on if it was a signal: %s',
    async (signal) => {
      const { code, signal: ended } = await place.run('--', 'sh', '-c', `kill -${signal.slice(3)} $$`).ended;
      expect({ code, ended }).toEqual({ code: null, ended: signal });
    },
  );

  it('has 128 and the number as its code in a shell, whichever signal it was', async () => {
    const script = ['TERM', 'KILL', 'SEGV', 'USR1', 'QUIT', 'PIPE']
      .map((name) => `stripelock run --path a.lock -- sh -c 'kill -${name} $$'; echo ${name} $?`)
      .join('; ');
    const { stdout } = await place.shell(script).ended;
    expect(stdout).toBe('TERM 143\nKILL 137\nSEGV 139\nUSR1 138\nQUIT 131\nPIPE 141\n');
  });

  it('is 127 if the command does not exist, and 126 if it cannot be run', async () => {
    writeFileSync(path.join(place.folder, 'text'), '');
    const none = await place.run('--', 'no-such-command').ended;
    expect(none).toMatchObject({ code: 127, stdout: '' });
    expect(none.stderr).toBe('stripelock: cannot run "no-such-command": there is no such command\n');
    expect(await place.run('--', './text').ended).toMatchObject({ code: 126 });
    // Both gave the lock back.
    expect(await place.run('--no-wait', '--', 'true').ended).toMatchObject({ code: 0 });
  });

  it('frees the lock though a program that it left behind still runs', async () => {
    const left = await place.run('--', 'sh', '-c', 'sleep 60 > /dev/null 2>&1 & echo $!').ended;
    expect(await place.run('--no-wait', '--', 'true').ended).toMatchObject({ code: 0, stderr: '' });
    process.kill(Number(left.stdout), 'SIGKILL');
  });
});

describe.runIf(process.platform !== 'win32')('a signal', () => {
  it.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const)(
    'reaches the command, which ends as it likes: %s',
    async (signal) => {
      const trap = `trap 'echo got it; exit 3' ${signal.slice(3)}; echo runs; while :; do sleep 0.05; done`;
      const started = place.run('--', 'bash', '-c', trap);
      await started.says(/runs/);
      started.child.kill(signal);
      expect(await started.ended).toEqual({ code: 3, signal: null, stdout: 'runs\ngot it\n', stderr: '' });
    },
  );

  it('to the process that a service starts by the path of the binary reaches the command', async () => {
    const script = `exec stripelock run --path a.lock -- sh -c 'trap "echo got it; exit 3" TERM; echo runs; while :; do sleep 0.05; done'`;
    const started = place.shell(script);
    await started.says(/runs/);
    started.child.kill('SIGTERM');
    expect(await started.ended).toMatchObject({ code: 3, stdout: 'runs\ngot it\n' });
    expect(await place.shell('stripelock run --path a.lock --no-wait -- true').ended).toMatchObject({
      code: 0,
    });
  });

  it('that the command ignores does not free the lock', async () => {
    const started = place.run('--', 'sh', '-c', 'trap "" TERM INT; echo runs; cat > /dev/null; echo ends');
    await started.says(/runs/);
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGTERM'] as const) started.child.kill(signal);
    expect(await place.run('--no-wait', '--', 'true').ended).toMatchObject({ code: CONFLICT });
    started.child.stdin.end();
    expect(await started.ended).toMatchObject({ code: 0, stdout: 'runs\nends\n' });
    expect(await place.run('--no-wait', '--', 'true').ended).toMatchObject({ code: 0 });
  });

  it('ends one that still waits', async () => {
    const holder = place.run('--', ...UNTIL_INPUT_ENDS);
    await holder.says(/runs/);
    const waiter = place.run('--', 'echo', 'not reached');
    await waiter.says(/waits for/);
    waiter.child.kill('SIGTERM');
    expect(await waiter.ended).toMatchObject({ code: null, signal: 'SIGTERM', stdout: '' });
    holder.child.stdin.end();
    expect(await holder.ended).toMatchObject({ code: 0 });
  });
});

// `script` runs its command at a new terminal.
describe.runIf(existsSync('/usr/bin/script'))('at a terminal', () => {
  /** Reports at the terminal, wherever its output is, how often a signal came: 300 ms after the first one. */
  const COUNT = `const { openSync, writeSync } = require('node:fs');
    const say = (text) => writeSync(openSync('/dev/tty', 'w'), text + '\\n');
    let count = 0;
    process.on(process.argv[2], () => {
      if (++count === 1) setTimeout(() => { say('count ' + count + '.'); process.exit(5); }, 300);
    });
    setInterval(() => {}, 1000);
    say('run is ' + process.ppid + '.');`;
  const elsewhere = '< /dev/null > output 2>&1';

  async function counts(
    signal: NodeJS.Signals,
    redirection: string,
    send: (terminal: Started, run: number) => void,
  ): Promise<void> {
    writeFileSync(path.join(place.folder, 'count.cjs'), COUNT);
    // In place of the shell of `script`, which is /bin/sh where SHELL is not set, and may end by the signal, too.
    const command = `exec stripelock run -- node count.cjs ${signal} ${redirection}`;
    const terminal = place.shell(`script -qec "${command}" /dev/null`);
    const [, run] = await terminal.says(/run is (\d+)\./);
    send(terminal, Number(run));
    expect((await terminal.says(/count (\d+)\./))[1]).toBe('1');
    expect(await terminal.ended).toMatchObject({ code: 5 });
  }

  describe.each([
    ['SIGINT', '\u0003'],
    ['SIGQUIT', '\u001c'],
  ] as const)('%s', (signal, key) => {
    describe.each([
      ['of a command at the terminal', ''],
      ['of a command whose input and output are elsewhere', elsewhere],
    ])('%s', (_, redirection) => {
      it('reaches it once by the key', () =>
        counts(signal, redirection, (terminal) => void terminal.child.stdin.write(key)));

      it('reaches it if another process sends it to `run` alone', () =>
        counts(signal, redirection, (_terminal, run) => process.kill(run, signal)));
    });
  });
});

describe.runIf(process.platform !== 'win32')('SIGKILL of stripelock itself', () => {
  it('leaves the lock with the command also if its keys are spread over files', async () => {
    await new ProcessLock({ path: place.lock, files: 8 }).close();
    for (const key of ['a', 'b', 'c']) {
      const started = place.run('--key', key, '--', ...UNTIL_TOLD);
      await started.says(/runs/);
      started.child.kill('SIGKILL');
      expect(await place.run('--key', key, '--no-wait', '--', 'true').ended).toMatchObject({
        code: CONFLICT,
      });
    }
    writeFileSync(path.join(place.folder, 'told'), '');
    for (const key of ['a', 'b', 'c']) {
      expect(await place.run('--key', key, '--', 'true').ended).toMatchObject({ code: 0 });
    }
  });

  it('leaves the lock with the command, and the next holder sees the death', async () => {
    const started = place.run('--', ...UNTIL_TOLD);
    await started.says(/runs/);
    started.child.kill('SIGKILL');
    expect(await place.run('--no-wait', '--', 'true').ended).toMatchObject({ code: CONFLICT });
    const next = place.run('--', 'echo', 'next');
    await next.says(/waits for/);
    writeFileSync(path.join(place.folder, 'told'), '');
    const { code, stdout, stderr } = await next.ended;
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'next\n' });
    expect(stderr).toMatch(/the previous holder of .* died without releasing it\n$/);
    // Its output is open as long as the command that it left has it.
    expect(await started.ended).toMatchObject({ signal: 'SIGKILL', stdout: 'runs\nends\n' });
  });
});

describe.runIf(process.platform !== 'win32')('one under another, of the same file', () => {
  it('runs, and has both locks', async () => {
    const inner = ['--', process.execPath, COMMAND, 'run', '--path', place.lock, '--key', 'b'];
    const started = place.run('--key', 'a', ...inner, '--', ...UNTIL_INPUT_ENDS);
    await started.says(/runs/);
    for (const key of ['a', 'b']) {
      const attempt = place.run('--key', key, '--no-wait', '--', 'true');
      expect(await attempt.ended).toMatchObject({ code: CONFLICT });
    }
    started.child.stdin.end();
    expect(await started.ended).toMatchObject({ code: 0, stdout: 'runs\nends\n', stderr: '' });
    for (const key of ['a', 'b']) {
      const attempt = place.run('--key', key, '--no-wait', '--', 'true');
      expect(await attempt.ended).toMatchObject({ code: 0, stderr: '' });
    }
  });
});

describe('under a lock file', () => {
  it.each([
    ['run', ['run', '--no-wait', '--', process.execPath, '-e', '']],
    ['inspect', ['inspect']],
    ['--version', ['--version']],
  ])('%s loads no file of the package but the command and the addon', async (_, args) => {
    await new ProcessLock({ path: place.lock }).close();
    const loaded = path.join(place.folder, 'loaded');
    const hook = path.join(place.folder, 'hook.cjs');
    writeFileSync(
      hook,
      `process.on('exit', () => require('node:fs').writeFileSync(${JSON.stringify(loaded)}, Object.keys(require.cache).join('\\n')));`,
    );
    const [subcommand, ...rest] = args as [string, ...string[]];
    const onFile = subcommand.startsWith('--') ? [] : ['--path', place.lock];
    const options = ['--require', hook, COMMAND, subcommand, ...onFile, ...rest];
    expect(await place.program(process.execPath, ...options).ended).toMatchObject({ code: 0, stderr: '' });
    const files = readFileSync(loaded, 'utf8').split('\n');
    expect(files.filter((file) => file !== hook && !file.endsWith('.node'))).toEqual([COMMAND]);
  });
});

describe('the lock', () => {
  it('lets one command run at a time', async () => {
    const log = path.join(place.folder, 'log');
    const script = `const { appendFileSync } = require('node:fs');
      appendFileSync(${JSON.stringify(log)}, 'begins\\n');
      setTimeout(() => appendFileSync(${JSON.stringify(log)}, 'ends\\n'), 20);`;
    writeFileSync(path.join(place.folder, 'job.cjs'), script);
    const jobs = Array.from({ length: 6 }, () => place.run('--', process.execPath, 'job.cjs').ended);
    for (const job of await Promise.all(jobs)) expect(job).toMatchObject({ code: 0 });
    expect(readFileSync(log, 'utf8')).toBe('begins\nends\n'.repeat(6));
  });

  it('is one for each key, and for the empty one without any', async () => {
    const holder = place.run('--key', 'one', '--', ...UNTIL_INPUT_ENDS);
    await holder.says(/runs/);
    const codes = async (...options: string[]) =>
      (await place.run('--no-wait', ...options, '--', process.execPath, '-e', '').ended).code;
    expect(await codes('--key', 'one')).toBe(CONFLICT);
    expect(await codes('--key', 'other')).toBe(0);
    expect(await codes()).toBe(0);
    holder.child.stdin.end();
    await holder.ended;
  });

  it('can be shared', async () => {
    const holder = place.run('--shared', '--', ...UNTIL_INPUT_ENDS);
    await holder.says(/runs/);
    const shared = place.run('--shared', '--no-wait', '--', process.execPath, '-e', '');
    expect(await shared.ended).toMatchObject({ code: 0 });
    const exclusive = place.run('--no-wait', '--', process.execPath, '-e', '');
    expect(await exclusive.ended).toMatchObject({ code: CONFLICT });
    holder.child.stdin.end();
    await holder.ended;
  });

  it('lets as many commands run as its limit says, and frees the place of one that was killed', async () => {
    const holders = ['a', 'b'].map(() => place.run('--limit', '2', '--', ...UNTIL_INPUT_ENDS));
    for (const holder of holders) await holder.says(/runs/);
    const [first, second] = holders as [Started, Started];
    const attempt = () =>
      place.run('--limit', '2', '--no-wait', '--', process.execPath, '-e', "console.log('ran')").ended;
    const refused = await attempt();
    expect(refused).toMatchObject({ code: CONFLICT, stdout: '' });
    for (const { child } of holders) expect(refused.stderr).toContain(`pid ${child.pid} (`);
    const { stdout } = await place.stripelock('inspect', '--path', place.lock).ended;
    expect(stdout.match(/holds +exclusive/g)).toHaveLength(2);
    first.child.stdin.end();
    await first.ended;
    expect(await attempt()).toMatchObject({ code: 0, stdout: 'ran\n', stderr: '' });
    second.child.kill('SIGKILL');
    second.child.stdin.end();
    const third = place.run('--limit', '2', '--', ...UNTIL_INPUT_ENDS);
    await third.says(/runs/);
    const waiter = place.run('--limit', '2', '--', process.execPath, '-e', "console.log('ran')");
    expect(await waiter.ended).toMatchObject({ code: 0, stdout: 'ran\n' });
    third.child.stdin.end();
    await third.ended;
  });

  it('has one limit: another one is refused', async () => {
    expect(await place.run('--limit', '2', '--', process.execPath, '-e', '').ended).toMatchObject({
      code: 0,
    });
    for (const options of [['--limit', '3'], []]) {
      const { code, stdout, stderr } = await place.run(...options, '--', 'echo', 'not reached').ended;
      expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
      expect(stderr).toMatch(/it was created with `limit: 2`/);
    }
  });

  it('has a separate default file for each limit', async () => {
    const holder = place.stripelock('run', '--limit', '2', '--', ...UNTIL_INPUT_ENDS);
    await holder.says(/runs/);
    const shown = await place.stripelock('inspect', '--limit', '2').ended;
    expect(shown.stdout).toContain(`${holder.child.pid}`);
    const other = place.stripelock('run', '--limit', '3', '--no-wait', '--', process.execPath, '-e', '');
    expect(await other.ended).toMatchObject({ code: 0, stderr: '' });
    holder.child.stdin.end();
    await holder.ended;
    for (const limit of [2, 3])
      expect(existsSync(path.join(place.folder, `.cache/stripelock/run-limit-${limit}.lock`))).toBe(true);
  });

  it('is the current folder if neither path nor key is given', async () => {
    const [one, other] = ['one', 'other'].map((name) => path.join(place.folder, name));
    for (const folder of [one!, other!]) mkdirSync(folder);
    const holder = place.shell("stripelock run -- sh -c 'echo runs; cat > /dev/null'", one);
    await holder.says(/runs/);
    const attempt = (folder: string, options = '') =>
      place.shell(`stripelock run --no-wait ${options} -- true`, folder).ended;
    expect(await attempt(one!)).toMatchObject({ code: CONFLICT });
    expect(await attempt(other!)).toMatchObject({ code: 0 });
    expect(await attempt(other!, `--key ${one}`)).toMatchObject({ code: CONFLICT });
    const shown = await place.stripelock('inspect').ended;
    expect(shown.stdout).toContain(one!);
    holder.child.stdin.end();
    await holder.ended;
    expect(existsSync(path.join(place.folder, '.cache/stripelock/run.lock'))).toBe(true);
  });
});

describe('one that has to wait', () => {
  it('says for whom, waits, and then runs', async () => {
    const holder = place.run('--key', 'deploy', '--', ...UNTIL_INPUT_ENDS);
    await holder.says(/runs/);
    const waiter = place.run('--key', 'deploy', '--verbose', '--', process.execPath, '-e', 'console.log(1)');
    const [, pid, title] = await waiter.says(
      /^stripelock: waits for "deploy": pid (\d+) \((.*)\) has held it since \d\d:\d\d:\d\d$/m,
    );
    expect(Number(pid)).toBe(holder.child.pid);
    expect(title).toContain('echo runs');
    holder.child.stdin.end();
    const { code, stdout, stderr } = await waiter.ended;
    expect({ code, stdout }).toEqual({ code: 0, stdout: '1\n' });
    expect(stderr).toMatch(/has "deploy" after \d+\.\d s\nstripelock: the command ended with code 0\n$/);
    expect(await holder.ended).toEqual({ code: 0, signal: null, stdout: 'runs\nends\n', stderr: '' });
  });

  it.each([
    [['--no-wait'], CONFLICT],
    [['--timeout', '100ms'], CONFLICT],
    [['--timeout', '0'], CONFLICT],
    [['--timeout', '0.1', '--conflict-exit-code', '0'], 0],
    [['--no-wait', '--conflict-exit-code', '9'], 9],
  ])('gives up as its options say: %j', async (options, code) => {
    const holder = place.run('--', ...UNTIL_INPUT_ENDS);
    await holder.says(/runs/);
    const ended = await place.run(...options, '--', 'echo', 'not reached').ended;
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(ended.stderr).toContain(`pid ${holder.child.pid} (`);
    expect(ended.stderr).toMatch(/^stripelock: \S+a\.lock is not free/);
    holder.child.stdin.end();
    await holder.ended;
  });
});

describe.runIf(process.platform !== 'win32')('in a pipe', () => {
  it('passes input and output on, and adds nothing to them', async () => {
    const script = 'echo abc | stripelock run --verbose --path a.lock -- cat 2> /dev/null | tr a-c A-C';
    expect(await place.shell(script).ended).toMatchObject({ code: 0, stdout: 'ABC\n', stderr: '' });
  });

  it('ends with the command, by its signal, if the reader is gone', async () => {
    const script = 'set -o pipefail; stripelock run --path a.lock -- yes | head -1';
    expect(await place.shell(script).ended).toMatchObject({ code: 141, stdout: 'y\n', stderr: '' });
  });

  it('keeps running if its own messages have no reader', async () => {
    const script = `{ stripelock run --verbose --path a.lock -- sh -c 'sleep 0.3; echo done > done'; echo $? > code; } 2>&1 | true; cat code done`;
    expect(await place.shell(script).ended).toMatchObject({ stdout: '0\ndone\n' });
  });
});

describe.runIf(process.platform !== 'win32')('under npm run', () => {
  beforeEach(() => {
    const scripts = {
      job: 'stripelock run --path a.lock -- node job.cjs',
      attempt: 'stripelock run --path a.lock --no-wait -- node job.cjs',
    };
    writeFileSync(path.join(place.folder, 'package.json'), JSON.stringify({ scripts }));
    // Ends with its input; with the argument `until-stop`, when the file `stop` appears.
    const job = `
      const { existsSync, writeFileSync } = require('node:fs');
      console.log('runs');
      if (process.argv[2] !== 'until-stop') process.stdin.resume();
      else
        setInterval(() => {
          if (!existsSync('stop')) return;
          writeFileSync('done', '');
          process.exit();
        }, 20);`;
    writeFileSync(path.join(place.folder, 'job.cjs'), job);
  });

  it('keeps running, with the lock, if npm alone gets SIGTERM', async () => {
    const first = place.shell('exec npm run --silent job -- until-stop');
    await first.says(/runs/);
    const ended = once(first.child, 'exit');
    first.child.kill('SIGTERM');
    await ended;
    const second = await place.shell('npm run --silent attempt').ended;
    expect(second).toMatchObject({ code: CONFLICT, stdout: '' });
    writeFileSync(path.join(place.folder, 'stop'), '');
    const free = place.shell('stripelock run --path a.lock -- ls done');
    expect(await free.ended).toMatchObject({ code: 0, stdout: 'done\n' });
  });

  it('ends with the code of the command', async () => {
    const job = place.shell('npm run --silent job < /dev/null');
    expect(await job.ended).toMatchObject({ code: 0, stdout: 'runs\n' });
  });
});
