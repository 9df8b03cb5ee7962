import path from 'node:path';
import { checkPart, checkString, checkTimeout, DEFAULT_TIMEOUT, type Names } from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';

/** For a new `ProcessLock`. */
export interface ProcessLockOptions {
  /**
   * The file that all processes lock, on a local disk. It is made, readable for its user alone, if there is none; its folder
   * must exist. It is never deleted, and nothing else may be in it.
   */
  path: string;
  /** Shown in errors. Default ''. */
  name?: string;
  /** Default time allowed for one whole acquisition, however many keys, in milliseconds. Default 5000. Infinity waits forever. */
  timeout?: number;
}

const NAMES: Names<ProcessLockOptions> = { path: true, name: true, timeout: true };

/** Throws a TypeError or RangeError for bad options. The path becomes absolute: the process may change its folder later. */
export function resolveProcessLockOptions(options: ProcessLockOptions): Required<ProcessLockOptions> {
  checkPart(options, NAMES, 'options', 'an object with a path');
  const { path: file, name, timeout } = options;
  const given = checkString(file, 'options.path');
  if (given === '' || given.includes('\0')) {
    throw invalidArgType('options.path', 'the path of a file', file);
  }
  return {
    path: path.resolve(given),
    name: name === undefined ? '' : checkString(name, 'options.name'),
    timeout: timeout === undefined ? DEFAULT_TIMEOUT : checkTimeout(timeout, 'options.timeout'),
  };
}
