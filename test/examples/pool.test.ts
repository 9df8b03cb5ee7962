import { expect, it } from 'vitest';
import { runExample } from './run-example.js';

it('the pool sells nothing twice, and loses nothing', async () => {
  expect(await runExample('pool/pool.mjs')).toEqual({ code: 0, stdout: '1000\ntrue\n', stderr: '' });
});
