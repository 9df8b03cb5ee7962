import { describe } from 'vitest';
import { describeBackground, itKeepsItsLease } from '../leases/background.js';
import { mysqlPools, MysqlScene, type MysqlLibrary } from './mysql-setup.js';

const TTL = 900;

describe.each(mysqlPools)('renewal in the background, in MySQL by a module that makes a %s', (library) => {
  const scene = new MysqlScene();
  const placeFor = (mysql: MysqlLibrary) => () => ({
    mysql,
    server: scene.server.url,
    table: scene.newTable(),
  });
  if (library === 'mysql2 pool') describeBackground(placeFor(library), TTL);
  else itKeepsItsLease(placeFor(library), TTL, 3);
});
