import { expect, it } from 'vitest';
import { runExample } from './run-example.js';

it('the workers of a cluster ask for one token, and all use it', async () => {
  expect(await runExample('cluster/cluster.mjs')).toEqual({
    code: 0,
    stdout: '4 workers use token 1\n',
    stderr: '',
  });
});
