import { codeOf } from './errors.js';

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user has no permission',
  EDQUOT: "the user's disk quota is exhausted",
  EFBIG: 'the system does not allow so large a file',
  EISDIR: 'it is a folder',
  ELOOP: 'too many symbolic links lead to it',
  EMFILE: 'too many files are open',
  ENFILE: 'too many files are open',
  ENOENT: 'its folder does not exist',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'its folder does not exist',
  EPERM: 'this user has no permission',
  EROFS: 'its file system is read-only',
};

/**
 * The reason why an operation on a file failed: in plain words for common error codes, otherwise the error's
 * message.
 */
export function fileReason(cause: unknown): string {
  return REASONS[String(codeOf(cause))] ?? String((cause as Error | undefined)?.message ?? cause);
}
