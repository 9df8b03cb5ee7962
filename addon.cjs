'use strict';

// Where the addon's binaries are: prebuilt ones for each platform, and the one that was compiled on this machine. Each
// `require` has a literal argument, so tools that copy or bundle what a program needs see all of them. What is called
// loads; nothing is loaded before.

/** As in `lib/engine/contract/engine.ts`: a program that was bundled with another version must not use these. */
exports.protocol = 20;

/** The folder of the package. */
exports.folder = __dirname;

/** By platform, as `platformName` in `lib/engine/native/platform.ts` says it. */
exports.prebuilt = {
  'linux-x64': () => require('./prebuilds/linux-x64/stripelock.node'),
  'linux-arm64': () => require('./prebuilds/linux-arm64/stripelock.node'),
  'linux-x64-musl': () => require('./prebuilds/linux-x64-musl/stripelock.node'),
  'linux-arm64-musl': () => require('./prebuilds/linux-arm64-musl/stripelock.node'),
  'win32-x64': () => require('./prebuilds/win32-x64/stripelock.node'),
  'win32-arm64': () => require('./prebuilds/win32-arm64/stripelock.node'),
  'darwin-x64': () => require('./prebuilds/darwin-x64/stripelock.node'),
  'darwin-arm64': () => require('./prebuilds/darwin-arm64/stripelock.node'),
};

/**
 * Without `bindings`: that and what it looks up take a thread more time than the binary, and `lib/engine/native/binary.ts`
 * has already looked whether the file is there. The function keeps the path from tools, which would fail where nothing
 * was compiled.
 */
exports.compiled = () => {
  const { createRequire: loaderFrom } = require('node:module');
  return loaderFrom(`${__dirname}/`)(`${__dirname}/build/Release/stripelock.node`);
};

/** The same for tools that copy what a program needs: they know this call. */
exports.traced = () =>
  require('bindings')({
    bindings: 'stripelock.node',
    module_root: __dirname,
    try: [['module_root', 'build', 'Release', 'bindings']],
  });
