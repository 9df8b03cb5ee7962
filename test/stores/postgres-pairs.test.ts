import { describe } from 'vitest';
import { delayed, describePairs, slow } from '../leases/lease-pairs.js';
import { postgresLibraries, PostgresScene } from './postgres-setup.js';

describe.skipIf(postgresLibraries.length === 0)('over PostgreSQL', () => {
  const scene = new PostgresScene();
  describePairs(() => {
    const table = scene.newTable();
    const clientModule = new URL('../workers/postgres-client.mjs', import.meta.url);
    clientModule.searchParams.set('library', 'pg');
    clientModule.searchParams.set('port', String(scene.server.port));
    return {
      clock: undefined,
      open: async () => slow(scene.storeOn(await scene.connect('pg'), { table, clientModule }), delayed),
    };
  });
});
