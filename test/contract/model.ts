import fc from 'fast-check';
import { describe, it } from 'vitest';
import type { Suite } from '../support/engine.js';
import { seedFor } from '../support/seed.js';
import { anyCommand, freshModel, Subject } from '../support/lock-model.js';

export const modelSuite: Suite = (makeLock) => {
  describe('any sequence of acquisitions and releases', () => {
    for (const stripes of [1, 5, 1024]) {
      it(`agrees with a naive model, on ${stripes} stripes`, async () => {
        const seed = seedFor(`model on ${stripes} stripes`);
        const property = fc.asyncProperty(fc.commands(anyCommand, { maxCommands: 40 }), async (commands) => {
          const subject = new Subject(makeLock({ stripes, timeout: 60_000 }));
          await fc.asyncModelRun(() => ({ model: freshModel(), real: subject }), commands);
          await subject.finish();
        });
        await fc.assert(property, { seed, numRuns: 60 });
      });
    }
  });
};
