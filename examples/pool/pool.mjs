/** A pool of threads fulfils orders from one stock in shared memory. */
import { Piscina } from 'piscina';
import { KeyedLock } from 'stripelock';

const lock = new KeyedLock({ name: 'stock' });
const stock = new Int32Array(new SharedArrayBuffer(4 * 10)).fill(100); // 10 products, 100 pieces of each
const pool = new Piscina({
  filename: new URL('./worker.mjs', import.meta.url).href,
  maxThreads: 4,
  workerData: { handle: lock.handle, stock },
});

// Each order wants two pieces of two products. Together they want 2000 pieces of 1000.
const orders = Array.from({ length: 500 }, (_, i) => [
  { product: i % 10, pieces: 2 },
  { product: (i * 7 + 3) % 10, pieces: 2 },
]);
const fulfilled = await Promise.all(orders.map((order) => pool.run(order)));
await pool.destroy();

const sold = 4 * fulfilled.filter(Boolean).length;
const left = stock.reduce((sum, pieces) => sum + pieces, 0);
console.log(sold + left); // 1000
console.log(Math.min(...stock) >= 0); // true
