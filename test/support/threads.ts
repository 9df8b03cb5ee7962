import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Worker, type TransferListItem } from 'node:worker_threads';
import { onTestFinished } from 'vitest';

/** The path of a script in `test/workers`. */
export function workerScript(name: string): string {
  return fileURLToPath(new URL(`../workers/${name}`, import.meta.url));
}

/** Starts a thread that ends with the test at the latest. */
export function startThread(script: string, workerData: unknown): Worker {
  // What the test process was told about engines holds for its threads, too.
  const worker = new Worker(workerScript(script), { workerData, env: { ...process.env } });
  onTestFinished(async () => {
    await worker.terminate();
  });
  return worker;
}

/** Runs a script in a thread up to the thread's own end. Resolves to the one message that it posts. */
export async function runThread<T>(script: string, workerData: unknown): Promise<T> {
  const worker = startThread(script, workerData);
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
  return Promise.all(workerData.map((data) => runThread<T>(script, data)));
}

/** Posts a message, and waits for the next one that comes back. */
export async function ask<T>(worker: Worker, message: unknown, transfer: TransferListItem[] = []): Promise<T> {
  worker.postMessage(message, transfer);
  const [reply] = (await once(worker, 'message')) as [T];
  return reply;
}
