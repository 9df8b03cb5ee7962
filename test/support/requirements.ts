import { describe, expect, it } from 'vitest';

/**
 * Reports that tests cannot run here: fails in CI, and otherwise skips a test with a warning that is hard to overlook.
 */
export function reportMissing(what: string, missing: string, advice: string): void {
  describe(what, () => {
    it(`needs ${missing}`, ({ skip }) => {
      const message = `NOT TESTED: ${what}. There is no ${missing}. ${advice}`;
      expect(process.env['CI'], message).toBeUndefined();
      console.warn(`\n${'!'.repeat(100)}\n${message}\n${'!'.repeat(100)}\n`);
      skip(message);
    });
  });
}
