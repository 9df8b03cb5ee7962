// Opens a lock file by a copy of the package, and prints the error. Arguments: the copy and the path of the file.
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [copy, file] = process.argv.slice(2);
const { ProcessLock } = await import(pathToFileURL(path.join(copy, 'unbundled', 'process.js')).href);
try {
  new ProcessLock({ path: file });
} catch (error) {
  console.log(error.code, error.message);
}
