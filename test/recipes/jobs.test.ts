import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { REDIS_ADVICE, redisCommand, RedisServer } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { endAll, endedWell, endOf, missingPackage, Project, type Program } from './project.js';

// Jobs of docs/frameworks.md in several processes: by schedulers that tick each second, and from a queue.

const INSTANCES = 3;
const TENANTS = ['acme', 'globex'];
/** Of each tenant: its jobs, and how many may run at once. */
const JOBS = 12;
const LIMIT = 2;
const NIGHTLY = "'0 3 * * *'";
const EACH_SECOND = "'* * * * * *'";
/** Longer than a test takes. */
const ALWAYS = 'minHold: 600_000';

let server: RedisServer;
let project: Project;

function startAll(file: string, instances = INSTANCES): Program[] {
  const env = { REDIS_URL: `redis://127.0.0.1:${server.port}` };
  return Array.from({ length: instances }, () => project.start(file, env));
}

/** Starts a program that also prints when it asks for a lease. */
function startObserved(file: string): Program[] {
  project.write({
    'observed.mjs': `
      import { leases } from './leases.mjs';
      const { withLease } = leases;
      leases.withLease = (...args) => (console.log('asked'), withLease.apply(leases, args));
      await import('./${file}');`,
  });
  return startAll('observed.mjs');
}

const allAskedOften = (instances: Program[]): boolean =>
  instances.every((instance) => instance.printed(/^asked$/).length >= 3);

const reports = (instances: Program[]): number =>
  instances.reduce((sum, instance) => sum + instance.printed(/^reported$/).length, 0);

/** Their stderr depends on the load: it reports ticks that came too late, and a tick that the end interrupts. */
async function endByThemselves(instances: Program[], how: unknown[] = [0, null]): Promise<void> {
  const ends = await endAll(instances);
  expect(ends.map(({ ended }) => ended)).toEqual(instances.map(() => how));
}

async function oneReports(file: string): Promise<Program[]> {
  const instances = startObserved(file);
  await expect.poll(() => allAskedOften(instances) && reports(instances) > 0).toBe(true);
  return instances;
}

if (redisCommand === undefined) reportMissing('jobs that run once', 'redis-server', REDIS_ADVICE);

describe.runIf(redisCommand !== undefined && missingPackage === undefined)(
  'of the instances of a program',
  () => {
    beforeEach(async () => {
      server = await RedisServer.start();
      project = new Project();
    });
    afterEach(async () => {
      await project.remove();
      await server.stop();
    });

    it('one runs each tick of node-cron, and the others skip it', async () => {
      project.change('node-cron.mjs', { [NIGHTLY]: EACH_SECOND });
      project.write({
        'observed.mjs': `
        import cron from 'node-cron';
        import './node-cron.mjs';
        for (const task of cron.getTasks().values()) {
          task.on('execution:skipped', ({ date, reason }) => console.log(reason + ' ' + date.toISOString()));
        }`,
      });
      const instances = startAll('observed.mjs');
      /** The lines of all instances about one tick, of each tick. */
      const ticks = (): string[][] => {
        const byTick = new Map<string, string[]>();
        for (const line of instances.flatMap(({ lines }) => lines)) {
          const [, what, tick] = /^(.+) (\S+)$/.exec(line)!;
          byTick.set(tick!, [...(byTick.get(tick!) ?? []), what!]);
        }
        return [...byTick.values()];
      };
      const whole = (): string[][] => ticks().filter((lines) => lines.length === INSTANCES);
      await expect.poll(() => whole().length).toBeGreaterThanOrEqual(4);
      await endByThemselves(instances);
      for (const lines of whole()) {
        expect(lines.toSorted()).toEqual(['not-elected', 'not-elected', 'the report of']);
      }
    });

    it.each(['cron.mjs', 'nest.mjs'])('one runs the job of %s', async (file) => {
      project.change(file, { [NIGHTLY]: EACH_SECOND, 'minHold: 5_000': ALWAYS });
      const instances = await oneReports(file);
      // NestJS ends its process by the signal that it got.
      await endByThemselves(instances, file === 'nest.mjs' ? [null, 'SIGTERM'] : [0, null]);
      expect(reports(instances)).toBe(1);
    });

    describe('of Bree', () => {
      const schedule = { [`cron: ${NIGHTLY}`]: 'interval: 1000' };

      it('one starts the thread of the job', async () => {
        project.change('bree.mjs', { ...schedule, 'minHold: 5_000': ALWAYS });
        project.write({ 'report.mjs': "console.log('reported');" });
        const instances = await oneReports('bree.mjs');
        await endByThemselves(instances);
        expect(reports(instances)).toBe(1);
      });

      it('one keeps the job from the others as long as its thread runs', async () => {
        project.change('bree.mjs', { ...schedule, 'minHold: 5_000': 'minHold: 0' });
        project.write({ 'report.mjs': "console.log('reported'); setInterval(() => {}, 1000);" });
        const instances = await oneReports('bree.mjs');
        expect(reports(instances)).toBe(1);
      });

      it('the one whose lease is lost ends the thread', async () => {
        project.change('bree.mjs', schedule);
        project.change('leases.mjs', { '{ store }': '{ store, ttl: 500 }' });
        project.write({ 'report.mjs': "console.log('reported'); setInterval(() => {}, 1000);" });
        const instances = await oneReports('bree.mjs');
        const [running] = instances.filter((instance) => instance.printed(/^reported$/).length > 0);
        await server.kill();
        await expect
          .poll(() => running!.lines.join() + running!.stderr)
          .toMatch(/"report" exited with code 1/);
      });
    });

    it('none runs a job of a tenant of BullMQ above its limit, and all jobs are done', async () => {
      project.write({
        'mail.mjs': `
        import { Redis } from 'ioredis';
        import { setTimeout as delay } from 'node:timers/promises';
        const redis = new Redis(process.env.REDIS_URL);
        export async function send({ tenant, number }) {
          const running = await redis.incr('running:' + tenant);
          await delay(20);
          await redis.decr('running:' + tenant);
          console.log(tenant, number, running);
        }
        process.once('SIGTERM', () => redis.disconnect());`,
        'fill.mjs': `
        import { Queue } from 'bullmq';
        const queue = new Queue('mail', { connection: { url: process.env.REDIS_URL } });
        await queue.addBulk(${JSON.stringify(TENANTS)}.flatMap((tenant) =>
          Array.from({ length: ${JOBS} }, (_, number) => ({ name: 'mail', data: { tenant, number } }))));
        await queue.close();`,
      });
      expect(await Promise.all(startAll('fill.mjs', 1).map(endOf))).toEqual([endedWell]);
      const workers = startAll('bullmq.mjs', 2);
      const sent = (): string[][] => workers.flatMap(({ lines }) => lines.map((line) => line.split(' ')));
      await expect.poll(() => sent().length).toBeGreaterThanOrEqual(TENANTS.length * JOBS);
      expect(await endAll(workers)).toEqual(workers.map(() => endedWell));
      for (const tenant of TENANTS) {
        const own = sent().filter(([name]) => name === tenant);
        expect(own.map(([, number]) => Number(number)).sort((a, b) => a - b)).toEqual([
          ...Array(JOBS).keys(),
        ]);
        expect(Math.max(...own.map(([, , running]) => Number(running)))).toBe(LIMIT);
      }
    });
  },
);
