// One leader at a time among all who run this: threads of Node, or tabs of a browser, where the page's import map turns
// the import into `navigator.locks`. Nothing here is of Node, and nothing goes beyond the standard.

import { locks } from 'stripelock/web-locks';

/**
 * Resolves once the work is done, as the leader.
 *
 * @param {string} name Who runs this.
 * @param {(line: string) => void} log
 * @param {() => Promise<void>} work
 */
export async function lead(name, log, work) {
  // Any number of readers at a time, while no thread writes.
  await locks.request('settings', { mode: 'shared' }, () => log(`${name} has read the settings`));
  await locks.request('leader', { ifAvailable: true }, (lock) => {
    if (lock === null) log(`${name} waits for its turn`);
  });
  await locks.request('leader', async () => {
    log(`${name} leads`);
    await work();
    const { pending = [] } = await locks.query();
    log(`${name} is done, ${pending.filter((request) => request.name === 'leader').length} still wait`);
  });
}
