import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { onTestFinished } from 'vitest';

/** The path of a script in `test/workers`. */
export function workerScript(name: string): string {
  return fileURLToPath(new URL(`../workers/${name}`, import.meta.url));
}

/** Starts a thread. It is terminated at the end of the test, if not earlier. */
export function startThread(script: string, workerData: unknown): Worker {
  // The environment variables that select engines apply to threads, too.
  const worker = new Worker(workerScript(script), { workerData, env: { ...process.env } });
  onTestFinished(async () => {
    await worker.terminate();
  });
  return worker;
}

/** Runs a script in a thread to its end. Resolves to the one message that it posts. */
export function runThread<T>(script: string, workerData: unknown): Promise<T> {
  const result = messageAtEnd<T>(script, startThread(script, workerData));
  // A test that fails before it awaits its threads should show only its own failure.
  result.catch(() => undefined);
  return result;
}

async function messageAtEnd<T>(script: string, worker: Worker): Promise<T> {
  const messages: T[] = [];
  worker.on('message', (message: T) => messages.push(message));
  const [code] = (await once(worker, 'exit')) as [number];
  if (code !== 0 || messages.length !== 1) {
    throw new Error(`${script} ended with code ${code} after ${messages.length} messages`);
  }
  return messages[0]!;
}

/** Runs a script in several threads at once. */
export function runThreads<T>(script: string, workerData: readonly unknown[]): Promise<T[]> {
  const results = Promise.all(workerData.map((data) => runThread<T>(script, data)));
  results.catch(() => undefined);
  return results;
}

/** Runs a script in several threads at once, which meet at one gate. Each gets the same data and its own seed. */
export function runTogether<T>(
  script: string,
  threads: number,
  data: { readonly seed: number; readonly [name: string]: unknown },
): Promise<T[]> {
  const gate = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const each = Array.from({ length: threads }, (_, i) => ({ ...data, gate, threads, seed: data.seed + i }));
  return runThreads<T>(script, each);
}
