import { describe, expect, it } from 'vitest';
import type { GateTable, LeaseEngine } from '../../lib/engine/contract/lease-table.js';
import { JavaScriptLeases } from '../../unbundled/engine/javascript/leases.js';
import { leaseEngine } from '../../unbundled/engine/select.js';
import { seedFor } from '../support/seed.js';
import { below, randomFrom } from '../workers/random.mjs';

/** The rule in its shortest form: what both engines must do. */
class Model {
  readonly tokens = new Map<string, bigint>();
  floor = 0n;

  constructor(readonly capacity: number) {}

  admit(key: string, token: bigint): bigint | undefined {
    const newest = this.tokens.get(key) ?? this.floor;
    if (token < newest) return newest;
    if (!this.tokens.has(key) && this.tokens.size === this.capacity) {
      const [forgotten, lowest] = [...this.tokens].reduce((a, b) => (b[1] < a[1] ? b : a));
      this.tokens.delete(forgotten);
      if (lowest > this.floor) this.floor = lowest;
    }
    this.tokens.set(key, token);
    return undefined;
  }
}

const engines: readonly LeaseEngine[] = [leaseEngine(), new JavaScriptLeases()];

describe.each(engines)('a fencing gate of the $name engine', (engine) => {
  const openGate = (capacity: number): GateTable => engine.openGate(capacity);

  it('answers like a model of the rule, whatever it is asked', () => {
    const seed = seedFor(`gate, ${engine.name}`);
    const random = randomFrom(seed);
    // From 256 keys on, the native gate spreads them over shards, and forgets within one shard.
    for (const capacity of [1, 2, 3, 10, 255]) {
      const gate = openGate(capacity);
      const model = new Model(capacity);
      for (let i = 0; i < 5000; i++) {
        const number = below(random, 2 * capacity);
        const key = `key ${number}`;
        // Any order for a while, then rising, like the tokens of leases. No two keys have the same token: if two keys
        // share the lowest, the rule does not say which one a gate forgets.
        const order = i % 1000 < 500 ? below(random, 50) : i + below(random, 50);
        const token = BigInt(order * 2 * capacity + number);
        expect(gate.admit(key, token), `call ${i}, capacity ${capacity}`).toBe(model.admit(key, token));
        expect(gate.size).toBe(model.tokens.size);
      }
    }
  });

  it('admits nothing stale and remembers no more than its capacity, however many keys it has', () => {
    const seed = seedFor(`large gate, ${engine.name}`);
    const random = randomFrom(seed);
    const gate = openGate(1000);
    const highest = new Map<string, bigint>();
    let forgotten = 0;
    for (let i = 0; i < 20_000; i++) {
      const key = `key ${below(random, 3000)}`;
      const token = BigInt(i + below(random, 10_000));
      const newest = gate.admit(key, token);
      const known = highest.get(key) ?? 0n;
      if (newest === undefined) {
        expect(token).toBeGreaterThanOrEqual(known);
        highest.set(key, token);
      } else {
        expect(newest).toBeGreaterThan(token);
        if (token >= known) forgotten++;
      }
      expect(gate.size).toBeLessThanOrEqual(1000);
    }
    // Otherwise it would never have forgotten a key.
    expect(forgotten).toBeGreaterThan(0);
  });
});
