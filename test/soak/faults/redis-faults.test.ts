import { REDIS_ADVICE, redisCommand } from '../../support/redis-server.mjs';
import { reportMissing } from '../../support/requirements.js';
import { describeFaults } from './faults.js';

if (redisCommand === undefined) reportMissing('the Redis store under faults', 'redis-server', REDIS_ADVICE);
else describeFaults('the Redis store', 'redis');
