// Scenarios that suit any store on a server.

import { setTimeout as delay } from 'node:timers/promises';
import { WHILE } from './clock.mjs';

/**
 * @typedef {import('./world.mjs').World} World
 * @typedef {{ port: number }} OnServer A backend with a server.
 */

/**
 * @param {World} world
 * @param {OnServer} backend
 */
export async function connectionsAreCut(world, backend) {
  const proxy = await world.proxyTo(backend.port);
  await world.start(3, { port: proxy.port });
  for (let i = 0; i < 8; i++) {
    await delay(WHILE / 4);
    proxy.delay = i % 2 === 0 ? 20 : 0;
    proxy.cut();
  }
  await world.expectProgress();
}

/**
 * Stopped for a while, and continued.
 *
 * @param {World} world
 * @param {{ signal(name: NodeJS.Signals): unknown }} server
 */
export async function serverIsPaused(world, server) {
  await world.start(3, { timeout: 200 });
  for (const pause of [world.ttl / 2, 1.5 * world.ttl, 3 * world.ttl]) {
    await delay(WHILE / 2);
    server.signal('SIGSTOP');
    await delay(pause);
    server.signal('SIGCONT');
    await world.expectProgress();
  }
}

/**
 * Killed and started again. That excuses nothing: it must come back with its data.
 *
 * @param {World} world
 * @param {{ kill(): Promise<unknown>, start(): Promise<unknown> }} server
 */
export async function serverIsKilled(world, server) {
  await world.start(3);
  for (let i = 0; i < 3; i++) {
    await delay(WHILE);
    await world.nextHolder();
    await server.kill();
    await delay(WHILE / 2);
    await server.start();
    await world.expectProgress();
  }
}
