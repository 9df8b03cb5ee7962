import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import { itKeepsItsLease } from '../leases/background.js';
import { missingPackage } from '../support/dynamodb-clients.mjs';
import { RECIPES_ADVICE } from '../support/recipe-packages.mjs';
import { reportMissing } from '../support/requirements.js';

const TTL = 900;
const what = 'renewal in the background, in DynamoDB by a module that makes a client';

if (missingPackage === undefined) {
  describe(what, () => {
    // In a separate process, since the holder's event loop is blocked.
    let server: ChildProcess;
    let url: string;
    beforeAll(async () => {
      server = fork(path.join(import.meta.dirname, '../support/dynamodb/process.mjs'));
      [url] = (await once(server, 'message')) as [string];
    });
    afterAll(() => void server.kill());
    itKeepsItsLease(() => ({ dynamodb: url }), TTL, 6);
  });
} else {
  reportMissing(what, missingPackage, RECIPES_ADVICE);
}
