import { setTimeout as delay } from 'node:timers/promises';
import { LeaseManager } from 'stripelock';
import { openStore } from './stores/all.mjs';

const settings = JSON.parse(process.argv[2]);
const { name, start, night: length, nights } = settings;
const { store, journal, close } = await openStore(settings);
const leases = new LeaseManager({ store, ttl: Math.ceil(length / 3) });

async function nightlyJob(night, lease) {
  // Later processes wait for the first, and then have nothing to do.
  if (await journal.has(night)) return `night ${night}: finds the job done`;
  console.log(`${name} night ${night}: runs the job under token ${lease.token}`);
  await delay(length / 10);
  // Only the first run crashes. The journal says whether there was a crash; the process itself cannot know.
  if (night === 1 && (await journal.noteCrash())) {
    console.log(`${name} night ${night}: crashes half-way`);
    process.kill(process.pid, 'SIGKILL');
    await delay(length);
  }
  lease.assertHeld();
  const written = await journal.write(night, name, lease.token);
  return written ? `night ${night}: has done the job` : `night ${night}: came too late, its token is stale`;
}

for (let night = 1; night <= nights; night++) {
  await delay(Math.max(0, start + (night - 1) * length - Date.now()));
  const result = await leases.withLease('job:nightly', { timeout: 10 * length }, (lease) =>
    nightlyJob(night, lease),
  );
  console.log(`${name} ${result}`);
}
await leases.close();
await close();
