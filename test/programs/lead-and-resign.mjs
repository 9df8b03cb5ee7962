// Only the election keeps this process alive.
import { LeaderElection, LeaseManager } from 'stripelock';

const election = new LeaderElection(new LeaseManager(), 'name', { onElected: () => console.log('elected') });
election.start();
setTimeout(async () => {
  console.log('still there');
  await election.resign();
  console.log('resigned');
}, 50).unref();
