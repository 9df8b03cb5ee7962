// Sends the handle of each class to a child process, which opens it. Prints a line for each: class, code and message.
// Argument: how the processes talk, 'json' or 'advanced'.
import { fork } from 'node:child_process';
import { FencingGate, KeyedLock, MemoryLeaseStore, StripedLock } from 'stripelock';
import { LockManager } from 'stripelock/web-locks';

const classes = { StripedLock, KeyedLock, MemoryLeaseStore, FencingGate, LockManager };
const serialization = /** @type {'json' | 'advanced'} */ (process.argv[2]);

function print(name, { code, message }) {
  console.log(`${name} ${code} ${message}`);
}

if (process.send === undefined) {
  const child = fork(import.meta.filename, [serialization], { serialization });
  for (const name of Object.keys(classes)) {
    try {
      child.send({ name, handle: new classes[name]().handle });
    } catch (error) {
      print(name, error);
    }
  }
  child.send({ name: 'end' });
} else {
  process.on('message', ({ name, handle }) => {
    if (name === 'end') return setImmediate(() => process.disconnect());
    try {
      classes[name].from(handle);
    } catch (error) {
      print(name, error);
    }
  });
}
