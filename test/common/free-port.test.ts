// A server of one test must not take the place of another's that is down.
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { freePort } from '../support/free-port.mjs';
import { runNode } from '../support/programs.js';

const only = (port: number) => ({ from: port, to: port });

it('does not give a port twice, although no server listens there', async () => {
  const port = await freePort();
  await expect(freePort(only(port))).rejects.toThrow(`no port from ${port} to ${port} is free`);
});

it('does not give it to another process either', async () => {
  const port = await freePort();
  const module = new URL('../support/free-port.mjs', import.meta.url).href;
  const program = `
    const { freePort } = await import('${module}');
    console.log(await freePort(${JSON.stringify(only(port))}).catch(({ message }) => message));`;
  const { stdout } = await runNode(['--input-type=module', '--eval', program]);
  expect(stdout.trim()).toBe(`no port from ${port} to ${port} is free`);
});

it('does not give the port of a server that asked nobody', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await expect(freePort(only(port))).rejects.toThrow('no port');
  server.close();
});
