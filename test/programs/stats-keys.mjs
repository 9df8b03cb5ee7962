// Prints what stats() says of a new lock on each engine, of the installation of the package whose folder is the argument.
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const { StripedLock } = await import(pathToFileURL(path.join(process.argv[2], 'dist/index.mjs')).href);
const stats = ['native', 'javascript'].map((engine) => new StripedLock({ engine, stripes: 1 }).stats());
console.log(JSON.stringify(stats));
