// The stand-in of DynamoDB in a separate process: port, journal. Messages set its properties.

import { StandIn } from './stand-in.mjs';

process.on('disconnect', () => process.exit());
const [port, journal] = process.argv.slice(2);
const standIn = await StandIn.start(['stripelock_leases', 'counters'], { port: Number(port), journal });
process.on('message', (/** @type {object} */ properties) => {
  Object.assign(standIn, properties);
  process.send?.('set');
});
process.send?.('ready');
