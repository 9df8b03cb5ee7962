import { afterAll, beforeAll, describe } from 'vitest';
import { itKeepsItsLease } from '../leases/background.js';
import { missingPackage } from '../support/dynamodb-clients.mjs';
import { RECIPES_ADVICE } from '../support/recipe-packages.mjs';
import { reportMissing } from '../support/requirements.js';
import { StandInServer } from '../support/stand-in-server.mjs';

const TTL = 900;
const what = 'renewal in the background, in DynamoDB by a module that makes a client';

if (missingPackage === undefined) {
  describe(what, () => {
    // In a separate process, since the holder's event loop is blocked.
    let server: StandInServer;
    beforeAll(async () => {
      server = await StandInServer.start('dynamodb');
    });
    afterAll(() => server.stop());
    itKeepsItsLease(() => ({ dynamodb: `http://127.0.0.1:${server.port}` }), TTL, 6);
  });
} else {
  reportMissing(what, missingPackage, RECIPES_ADVICE);
}
