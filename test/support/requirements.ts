import { describe, expect, it } from 'vitest';

/**
 * Says that tests cannot run here: a failure in CI, and otherwise a skipped test with a warning that nobody overlooks.
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
