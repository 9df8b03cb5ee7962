import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';
import type { StripedLock } from 'stripelock';
import { processContract } from '../contract/contract.js';
import { ProcessUnderTest } from '../workers/process-under-test.mjs';

const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-contract-'));
afterAll(() => rmSync(folder, { recursive: true }));

processContract((options = {}) => {
  const { timeout = 5000, name = '' } = options;
  return new ProcessUnderTest({
    path: path.join(folder, randomUUID()),
    timeout,
    name,
  }) as unknown as StripedLock;
});
