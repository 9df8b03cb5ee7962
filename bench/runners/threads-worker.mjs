// Contended workloads: one of the threads.

import { once } from 'node:events';
import { parentPort, workerData } from 'node:worker_threads';
import { openLock, subjectNamed } from '../subjects/index.mjs';
import { Arena, PHASE, PREPARE } from '../support/arena.mjs';
import { workloadNamed } from '../workloads/index.mjs';
import { asyncRequests } from './async-requests.mjs';
import { syncRequests } from './sync-requests.mjs';

if (parentPort === null) throw new Error('must run in a worker thread');
const { workload: name, subject, shared, memory, threads, thread, iterations } = workerData;
/** @type {import('../workloads/index.mjs').ThreadsWorkload} */
const workload = workloadNamed(name);
const arena = new Arena(threads, workload.keys, memory);
const lock = openLock(subjectNamed(subject), shared);
const requests = workload.inFlight === undefined ? syncRequests : asyncRequests;
const run = requests({ workload, lock, arena, thread, iterations });

parentPort.postMessage({ ready: true });
if (workload.inFlight === undefined) Atomics.wait(arena.control, PHASE, PREPARE);
else await once(parentPort, 'message');
// Node's own locks let a thread end while its requests are pending.
const alive = setInterval(() => undefined, 60_000);
const report = await run();
clearInterval(alive);
parentPort.postMessage({ report });
