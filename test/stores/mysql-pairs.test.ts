import { describe } from 'vitest';
import { delayed, describePairs, slow } from '../leases/lease-pairs.js';
import { mysqlPools, MysqlScene } from './mysql-setup.js';

describe.each(mysqlPools)('over MySQL, on %s', (library) => {
  const scene = new MysqlScene();
  describePairs(() => {
    const table = scene.newTable();
    const clientModule = new URL('../workers/mysql-client.mjs', import.meta.url);
    clientModule.searchParams.set('library', library);
    clientModule.searchParams.set('server', scene.server.url);
    return {
      clock: undefined,
      open: async () => slow(await scene.store(library, { table, clientModule }), delayed),
    };
  });
});
