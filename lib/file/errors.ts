import { invalidArg, LockError } from '../common/errors.js';
import { fileReason } from '../common/file-reasons.js';

const quoted = (file: string): string => `file ${JSON.stringify(file)}`;

export function readError(file: string, cause: unknown): LockError {
  return new LockError('ERR_FILE_READ', `${quoted(file)} could not be read: ${fileReason(cause)}`, { cause });
}

/** `written` lists the files of the same update that already have their new contents. */
export function writeError(file: string, cause: unknown, written: readonly string[] = []): LockError {
  const others =
    written.length === 0 ? '' : `. Already written by the same update: ${written.map(quoted).join(', ')}`;
  const message = `${quoted(file)} could not be written and is unchanged: ${fileReason(cause)}${others}`;
  return new LockError('ERR_FILE_WRITE', message, { cause });
}

export function flushError(folder: string, cause: unknown): LockError {
  const message = `folder ${JSON.stringify(folder)} could not be flushed after a file in it was replaced: a power failure may bring the old version back`;
  return new LockError('ERR_FILE_FLUSH', message, { cause });
}

export function kindError(file: string): LockError {
  const message = `${quoted(file)} is a folder, a device or a pipe: pass the path of an ordinary file`;
  return new LockError('ERR_FILE_KIND', message);
}

export function missingError(file: string): LockError {
  const message = `${quoted(file)} does not exist: create it, or pass options.initial`;
  return new LockError('ERR_FILE_MISSING', message);
}

export function sizeError(file: string, bytes: number, most: number): LockError {
  const message = `${quoted(file)}: ${bytes} bytes are more than options.maxBytes, ${most}`;
  return new LockError('ERR_FILE_SIZE', message);
}

export function ownerError(file: string, cause: unknown): LockError {
  const message = `${quoted(file)} belongs to another user or group, and this user cannot give a new file that owner: it is unchanged`;
  return new LockError('ERR_FILE_OWNER', message, { cause });
}

/** `where` is the position of the fault, if it is known. */
export function parseError(file: string, where: string | undefined, cause: unknown): LockError {
  const place = where === undefined ? '' : ` at ${where}`;
  const message = `${quoted(file)} could not be parsed${place}: ${messageOf(cause)}`;
  return new LockError('ERR_FILE_PARSE', message, { cause });
}

/** The error if `stringify` failed. It is a TypeError, because the caller passed the value as an argument. */
export function stringifyError(file: string, cause: unknown): TypeError {
  const error = invalidArg(`the new value of ${quoted(file)} could not be converted: ${messageOf(cause)}`);
  error.cause = cause;
  return error;
}

const messageOf = (cause: unknown): string => String((cause as Error | undefined)?.message ?? cause);
