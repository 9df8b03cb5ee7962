// Only the election keeps this process alive. An argument is the path of a lock file: then the ground is a ProcessLock.
import { LeaderElection, LeaseManager } from 'stripelock';
import { ProcessLock } from 'stripelock/process';

const [path] = process.argv.slice(2);
const ground = path === undefined ? new LeaseManager() : new ProcessLock({ path });
const election = new LeaderElection(ground, 'name', { onElected: () => console.log('elected') });
election.start();
setTimeout(async () => {
  console.log('still there');
  await election.resign();
  console.log('resigned');
}, 50).unref();
