// Locks whose holders are processes: stripelock's stores, and their peers. A store has a file in `stores`, an entry here,
// and its workloads.

import { etcdServer, etcdSubjects } from './stores/etcd.mjs';
import { mongodbServer, mongodbSubjects } from './stores/mongodb.mjs';
import { mysqlServer, mysqlSubjects } from './stores/mysql.mjs';
import { postgresServer, postgresSubjects } from './stores/postgres.mjs';
import { redisServer, redisSubjects } from './stores/redis.mjs';
import { sqliteSubjects } from './stores/sqlite.mjs';

export const storeSubjects = {
  ...redisSubjects,
  ...sqliteSubjects,
  ...postgresSubjects,
  ...mysqlSubjects,
  ...mongodbSubjects,
  ...etcdSubjects,
};

/** @type {readonly import('../support/servers.mjs').Server[]} */
export const servers = [redisServer, postgresServer, mysqlServer, mongodbServer, etcdServer];
