// Counts in the property `count` of a JSON file. The argument is an object:
//   path, updates, sync; options: of the file
//   faults   for each operation of node:fs, the codes with which its next calls fail
//   killAt   the number of the operation before which this process kills itself, from 1
//   halfway  kills itself when it has written half of the new version

import fs from 'node:fs';

const {
  path,
  updates = 1,
  sync = false,
  options = {},
  faults = {},
  killAt = Infinity,
  halfway = false,
} = JSON.parse(process.argv[2]);

let armed = false;
let operations = 0;

const die = () => {
  process.kill(process.pid, 'SIGKILL');
  // Until the signal arrives.
  for (;;);
};

/** @param {string} name */
function before(name, file, data) {
  if (!armed) return undefined;
  if (++operations === killAt) die();
  if (halfway && name === 'writeFile') {
    fs.writeSync(file, data, 0, data.length >> 1);
    die();
  }
  const code = faults[name]?.shift();
  return code && Object.assign(new Error(`${code}: ${name} was made to fail`), { code });
}

for (const name of [
  'access',
  'close',
  'fchmod',
  'fchown',
  'fstat',
  'fsync',
  'open',
  'readFile',
  'readlink',
  'realpath',
  'rename',
  'unlink',
  'writeFile',
]) {
  const { [name]: call, [`${name}Sync`]: callSync } = fs;
  fs[name] = (...args) => {
    const error = before(name, ...args);
    if (error) setImmediate(args.at(-1), error);
    else call(...args);
  };
  fs[`${name}Sync`] = (...args) => {
    const error = before(name, ...args);
    if (error) throw error;
    return callSync(...args);
  };
}

const { LockedFile } = await import('stripelock/file');
const file = new LockedFile(path, { initial: { count: 0 }, ...options });
const change = ({ count }) => ({ count: count + 1, filling: 'x'.repeat(10_000) });
armed = true;
try {
  for (let i = 0; i < updates; i++) {
    const { count } = sync ? file.updateSync(change) : await file.update(change);
    fs.writeSync(1, `${count}\n`);
  }
} catch ({ code, message, cause }) {
  console.log(JSON.stringify({ code, message, cause: cause?.code }));
}
