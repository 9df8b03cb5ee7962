import { describe, expect, it } from 'vitest';
import { HighestTokens } from '../../unbundled/stores/highest-tokens.js';

/** More grants than are remembered. */
const MANY = 10_001;

describe('a late grant of a key whose last grant was evicted', () => {
  /** Records grants of other keys until the first grants are evicted. Released grants end. */
  function fill(tokens: HighestTokens, isReleased: boolean, owner: string | undefined): void {
    for (let i = 0; i < MANY; i++) {
      tokens.add(`other ${i}`, owner, 1n);
      if (isReleased) tokens.ended(`other ${i}`, 'other', 1n);
    }
  }

  it('counts as replacing a grant on which its owner relies', () => {
    const tokens = new HighestTokens();
    tokens.add('key', 'me', 5n);
    fill(tokens, true, 'other');
    expect(tokens.of('key')).toBe(0n);
    expect(tokens.addLate('key', 'me', 6n)).toBe(true);
    expect(tokens.storedFor('key', 5n)).toBe(6n);
    expect(tokens.storedFor('key', 7n)).toBe(7n);
    tokens.ended('key', 'me', 5n);
    expect(tokens.addLate('key', 'me', 8n)).toBe(false);
  });

  it.each([
    ['was released', true, 'other'],
    ['was a group of readers', false, undefined],
  ])('is given back if every evicted grant %s', (_name, isReleased, owner) => {
    const tokens = new HighestTokens();
    fill(tokens, isReleased, owner);
    fill(tokens, isReleased, owner);
    expect(tokens.addLate('key', 'me', 5n)).toBe(false);
  });
});
