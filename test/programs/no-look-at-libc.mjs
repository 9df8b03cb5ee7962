// Takes its first native lock in the main thread and in a worker. Prints, for each, the engine and what the package did
// to tell one libc from another: diagnostic reports, reading this process's binary, searching for a dynamic linker, and
// commands. The optional argument is a folder: then it uses the installation of the package there, on any engine.
import childProcess from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

const folder = isMainThread ? process.argv[2] : workerData;
const looks = [];
for (const method of ['getReport', 'writeReport']) {
  // A report resolves the name of every open socket.
  process.report[method] = () => {
    looks.push(method);
    throw new Error('no report is made');
  };
}
for (const method of ['openSync', 'readFileSync', 'existsSync', 'readdirSync', 'statSync', 'readlinkSync']) {
  const original = fs[method];
  fs[method] = (file, ...rest) => {
    if (/^\/proc\/|\/ldd$|\/ld-|musl|^\/(usr\/)?lib\d*\/?$/.test(String(file)))
      looks.push(`${method} ${file}`);
    return original(file, ...rest);
  };
}
for (const method of ['spawnSync', 'execSync', 'execFileSync']) {
  childProcess[method] = (command) => {
    looks.push(`${method} ${command}`);
    throw new Error('no command is run');
  };
}
syncBuiltinESMExports();

const entry = folder ? pathToFileURL(path.join(folder, 'dist/index.mjs')).href : 'stripelock';
const { StripedLock } = await import(entry);
const lock = new StripedLock(folder ? {} : { engine: 'native' });
lock.acquireSync('key').release();
const own = { engine: lock.engine, looks };
if (isMainThread) {
  const [theirs] = await once(new Worker(new URL(import.meta.url), { workerData: folder }), 'message');
  console.log(JSON.stringify([own, theirs]));
} else {
  parentPort.postMessage(own);
}
