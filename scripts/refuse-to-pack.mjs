// npm runs this before it packs or publishes the folder of the sources, whose manifest is not the published one.

console.error(
  'stripelock: this is the folder of the sources. `npm run package` assembles the package in release/package, with what\n' +
    'is in prebuilds/, and packs that. Publish that folder.',
);
process.exitCode = 1;
