import { LeaderElection, LeaseManager } from 'stripelock';
import { openStore } from '../cron/stores/all.mjs';

const settings = JSON.parse(process.argv[2]);
const { name, ttl } = settings;
const { store, close } = await openStore(settings);
const leases = new LeaseManager({ store });

const election = new LeaderElection(leases, 'the leader', {
  ttl,
  onElected: async (lease, signal) => {
    process.send({ name, token: String(lease.token) });
    // Put the leader's work here, with the token in every write, until the signal aborts.
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  },
  onLost: () => process.send({ lost: name }),
});
election.start();

process.once('SIGTERM', async () => {
  await election.close();
  await leases.close();
  await close();
  process.disconnect();
});
