// To be preloaded on Node 20, on which the main version of better-sqlite3 does not load: `require` then finds the older one.

const Module = require('node:module');

const resolve = Module._resolveFilename;
Module._resolveFilename = function (request, ...rest) {
  const name =
    request === 'better-sqlite3' ? require.resolve('../drivers/node20/node_modules/better-sqlite3') : request;
  return resolve.call(this, name, ...rest);
};
