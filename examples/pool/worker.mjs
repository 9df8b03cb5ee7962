/** A thread of the pool. */
import { workerData } from 'piscina';
import { KeyedLock } from 'stripelock';

const { handle, stock } = workerData;
const lock = KeyedLock.from(handle); // once in each thread

/** Takes all products of an order from the stock, or none. */
export default function fulfil(order) {
  const keys = order.map(({ product }) => `product:${product}`);
  return lock.withLockSync(keys, () => {
    if (order.some(({ product, pieces }) => stock[product] < pieces)) return false;
    for (const { product, pieces } of order) stock[product] -= pieces;
    return true;
  });
}
