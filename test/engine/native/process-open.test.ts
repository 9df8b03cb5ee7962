import { expect, it } from 'vitest';
import { nativeProcessLocks } from '../../../unbundled/engine/native/process-locks.js';

it('a lock file is closed if the view of its table cannot be created', () => {
  const closed: number[] = [];
  const addon = {
    processOpen: () => [7, 1, new Int32Array(1), 1, new BigUint64Array(1), 1],
    processClose: (file: number) => closed.push(file),
  };
  const overflow = new RangeError('Maximum call stack size exceeded');
  const locks = nativeProcessLocks(addon as never, () => {
    throw overflow;
  });
  expect(() => locks.open('/lock', 'name', 'title', 0, 0, 0)).toThrow(overflow);
  expect(closed).toEqual([7]);
});
