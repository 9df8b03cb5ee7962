import { LockManager } from 'stripelock/web-locks';
import { ManagerContext } from '../../unbundled/web-locks/context.js';
import { LockManager as UnbundledManager } from '../../unbundled/web-locks/manager.js';
import { JavaScriptWebLockEngine } from '../../unbundled/engine/javascript/web-locks.js';

/** A manager of one thread, as it is without the addon. */
export function javascriptManager(name = ''): LockManager {
  const opened = new JavaScriptWebLockEngine().open();
  return new UnbundledManager(new ManagerContext(name, () => opened)) as unknown as LockManager;
}

/** With the addon, and without it. */
export const engines = [
  { engine: 'native', makeManager: (name = '') => new LockManager({ name }) },
  { engine: 'javascript', makeManager: javascriptManager },
] as const;

/** `Promise.withResolvers`, which Node 20 does not have. */
export function withResolvers<T>(): {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (reason: unknown) => void;
} {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}

/** A lock that a test holds. */
export interface Held<T = unknown> {
  /** What `request` has returned. */
  readonly ended: Promise<T>;
  /** Ends the callback, which gives this value. */
  release(value?: T): void;
  /** Ends the callback with this error. */
  fail(error: unknown): void;
}

type Options = Parameters<LockManager['request']>[1];

/** Waits until the lock is held. The test does not fail because `ended` rejects. */
export async function hold<T>(manager: LockManager, name: string, options: Options = {}): Promise<Held<T>> {
  const { promise: granted, resolve: grant } = withResolvers<undefined>();
  const { promise: held, resolve: release, reject: fail } = withResolvers<T>();
  const ended = manager.request(name, options as object, () => {
    grant(undefined);
    return held;
  }) as Promise<T>;
  ended.catch(() => undefined);
  await Promise.race([granted, ended]);
  return { ended, release: (value) => release(value as T), fail };
}

/** What `query()` says of one name: the modes of those that hold it, and of those that wait. */
export async function stateOf(
  manager: LockManager,
  name: string,
): Promise<{ held: string[]; pending: string[] }> {
  const { held, pending } = await manager.query();
  const modes = (infos: typeof held): string[] =>
    infos.filter((info) => info.name === name).map(({ mode }) => mode);
  return { held: modes(held), pending: modes(pending) };
}
