import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { codeIn } from '../../scripts/docs/markdown.mjs';
import { textOf } from '../docs/pages.js';
import { REDIS_ADVICE, redisCommand, RedisServer } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { COMMAND, Place } from './started.js';

// The commands of the pages, as they stand, in the folder of a project that has the package installed.

let place: Place;
beforeEach(() => {
  place = new Place();
  const binaries = path.join(place.folder, 'node_modules/.bin');
  mkdirSync(binaries, { recursive: true });
  symlinkSync(COMMAND, path.join(binaries, 'stripelock'));
});
afterEach(() => place.remove());

function program(name: string, text: string): void {
  writeFileSync(path.join(place.folder, name), text);
  chmodSync(path.join(place.folder, name), 0o755);
}

describe.runIf(process.platform !== 'win32')('the commands of', () => {
  it.each([
    ['README.md', /^built\n$/],
    [
      'docs/processes.md',
      /^built\n(deployed\nran\nbuilt\n)?no process holds or waits for a key of .*build\.lock\n$/,
    ],
  ])('%s work as shown', async (page, output) => {
    program('Makefile', 'build:\n\t@echo built\n');
    program('deploy.sh', '#!/bin/sh\necho deployed\n');
    program('nightly.sh', '#!/bin/sh\necho ran\n');
    const shown = codeIn(textOf(page), 'sh').filter(({ code }) => code.includes('stripelock run'));
    expect(shown).not.toEqual([]);
    for (const { code } of shown) {
      const { code: exitCode, stdout } = await place.shell(`set -e\n${code}`).ended;
      expect({ exitCode, stdout }).toEqual({
        exitCode: 0,
        stdout: expect.stringMatching(output) as string,
      });
    }
  });
});

if (redisCommand === undefined) {
  reportMissing('the crontab of the recipes', 'redis-server', REDIS_ADVICE);
} else {
  it.runIf(process.platform !== 'win32')(
    'the crontab of the recipes runs its job on one machine',
    async () => {
      const server = await RedisServer.start();
      onTestFinished(() => server.stop());
      const crontab = codeIn(textOf('docs/recipes.md'), 'text').find(({ code }) =>
        code.includes('STRIPELOCK_STORE'),
      )!;
      const line = /^0 3 \* \* \* (.*)$/m.exec(crontab.code)![1]!.replaceAll('/srv/app', place.folder);
      program('nightly.sh', `#!/bin/sh\necho ran >> ${place.folder}/log\n`);
      const job = `export STRIPELOCK_STORE=redis://127.0.0.1:${server.port}; ${line}`;
      const machines = await Promise.all([1, 2, 3].map(() => place.shell(job).ended));
      expect(machines.map(({ code }) => code)).toEqual([0, 0, 0]);
      // A machine whose clock is late.
      expect(await place.shell(job).ended).toMatchObject({ code: 0 });
      expect(readFileSync(path.join(place.folder, 'log'), 'utf8')).toBe('ran\n');
    },
  );
}

it.runIf(existsSync('/usr/bin/setpriv'))(
  '`setpriv --pdeathsig` ends the command with its parent',
  async () => {
    const trap = `trap "echo got it; exit" TERM; echo runs; while :; do sleep 0.05; done`;
    const started = place.shell(
      `setpriv --pdeathsig TERM -- node_modules/.bin/stripelock run --path a.lock -- sh -c '${trap}'; echo not reached`,
    );
    await started.says(/runs/);
    started.child.kill('SIGKILL');
    expect(await started.ended).toMatchObject({ signal: 'SIGKILL', stdout: 'runs\ngot it\n' });
    expect(await place.shell('node_modules/.bin/stripelock run --path a.lock -- true').ended).toMatchObject({
      code: 0,
    });
  },
);
