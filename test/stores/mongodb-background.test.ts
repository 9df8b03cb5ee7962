import { afterAll, beforeAll, describe } from 'vitest';
import { describeBackground, itKeepsItsLease } from '../leases/background.js';
import { StandInServer } from '../support/stand-in-server.mjs';

const TTL = 900;

// In a separate process, as the event loop of the tests is blocked.
let server: StandInServer;
beforeAll(async () => {
  server = await StandInServer.start('mongodb');
});
afterAll(() => server.stop());

let collections = 0;
const placeFor = (driver: 'mongodb' | 'mongodb6') => () => ({
  driver,
  server: `mongodb://127.0.0.1:${server.port}/?directConnection=true`,
  collection: `background_${++collections}`,
});

describe('renewal in the background, in MongoDB by a module that makes a collection of mongodb', () => {
  describeBackground(placeFor('mongodb'), TTL);
});

describe('renewal in the background, in MongoDB by a module that makes a collection of mongodb6', () => {
  itKeepsItsLease(placeFor('mongodb6'), TTL, 3);
});
