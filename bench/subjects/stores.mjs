// Locks whose holders are processes: stripelock's stores, and their peers. A store has a file in `stores`, an entry here,
// and its workloads.

import { mongodbServer, mongodbSubjects } from './stores/mongodb.mjs';
import { redisServer, redisSubjects } from './stores/redis.mjs';
import { sqliteSubjects } from './stores/sqlite.mjs';

export const storeSubjects = { ...mongodbSubjects, ...redisSubjects, ...sqliteSubjects };

/** @type {readonly import('../support/servers.mjs').Server[]} */
export const servers = [mongodbServer, redisServer];
