import { setTimeout as delay } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { FencingGate, LeaseManager, MemoryLeaseStore, StaleTokenError, StripedLock } from 'stripelock';
import { Report } from './report.mjs';

const { name, store, gate: gateHandle, lock: lockHandle, report: reportHandle, paused, ttl } = workerData;
const manager = new LeaseManager({ store: MemoryLeaseStore.from(store), ttl });
const gate = FencingGate.from(gateHandle);
const lock = StripedLock.from(lockHandle);
const report = Report.from(reportHandle);
const number = Number(name.split(' ')[1]);
const say = (text) => parentPort.postMessage(`${name} ${text}`);

/** Admission and write are one step. The lock keeps the others out for this short time; a lease would be too slow. */
function write(lease) {
  lock.withLockSync('report', () => {
    gate.admit(lease.key, lease.token);
    report.write(number, lease.token);
  });
}

async function nightlyJob(lease) {
  if (report.isFinished) return 'finds the job done';
  say(`runs the job under token ${lease.token}`);
  write(lease);
  if (Atomics.compareExchange(paused, 0, 0, 1) === 0) {
    say(`is paused for ${2 * ttl} ms, as by a long garbage collection`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * ttl);
    // It could check `lease.held` now, which would be right. Here it forgets to, and the gate stops it.
    say(`goes on; its lease ${lease.held ? 'is held' : 'was lost meanwhile'}`);
    await delay(ttl);
  }
  write(lease);
  report.finish();
  return 'has done the job';
}

try {
  // No worker waits for a job that another does. A refused worker asks again later, as on the next night.
  for (let attempt = 1; attempt <= 3; attempt++) {
    const result = await manager.withLease('job:nightly', { ifAvailable: true }, nightlyJob);
    say(result ?? 'finds the job taken');
    if (result !== undefined) break;
    await delay(1.2 * ttl);
  }
} catch (error) {
  if (!(error instanceof StaleTokenError)) throw error;
  say(`may not write any more: token ${error.token} is stale, ${error.newest} came after it`);
} finally {
  await manager.close();
}
