import { parentPort, workerData } from 'node:worker_threads';
import { FencingGate, StaleTokenError } from 'stripelock';

try {
  FencingGate.from(workerData.handle).admit('key', workerData.token);
  parentPort.postMessage(true);
} catch (error) {
  if (!(error instanceof StaleTokenError)) throw error;
  parentPort.postMessage(false);
}
