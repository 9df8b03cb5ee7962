import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LeaseManager } from 'stripelock';
import { PGBOUNCER_ADVICE, pgbouncerCommand, startPgBouncer } from '../support/pgbouncer.mjs';
import { reportMissing } from '../support/requirements.js';
import { postgresLibraries, PostgresScene } from './postgres-setup.js';

const LONG = 600_000;

if (pgbouncerCommand === undefined) {
  reportMissing('the PostgreSQL store behind pgBouncer', 'pgbouncer', PGBOUNCER_ADVICE);
} else {
  describe.each(postgresLibraries)(
    'behind a pooler that hands sessions on after each transaction, on %s',
    (library) => {
      const scene = new PostgresScene();
      let bouncer: Awaited<ReturnType<typeof startPgBouncer>>;
      beforeAll(async () => {
        bouncer = await startPgBouncer(scene.server.port);
      });
      afterAll(() => bouncer.stop());

      it('statements that other clients have prepared on the session are never confused', async () => {
        const table = scene.newTable();
        const clients = await Promise.all(
          [1, 2, 3, 4, 5, 6].map(() => scene.connect(library, bouncer.port, { max: 2 })),
        );
        const managers = clients.map(
          (client) =>
            new LeaseManager({ store: scene.storeOn(client, { table }), ttl: LONG, backoff: { max: 20 } }),
        );
        let inside = 0;
        let count = 0;
        await Promise.all(
          managers.map(async (manager, i) => {
            for (let round = 0; round < 10; round++) {
              const keys = i % 2 === 0 ? 'key' : ['key', `other ${i}`];
              await manager.withLease(keys, { timeout: 50_000 }, async (lease) => {
                expect(++inside).toBe(1);
                expect(await lease.renew()).toBe(true);
                count++;
                inside--;
              });
            }
          }),
        );
        expect(count).toBe(60);
      });
    },
  );
}
