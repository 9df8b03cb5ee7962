/**
 * Makes a signal look before it answers. Its event is sent by a timer, which a blocked event loop delays; code that
 * runs first after such a block asks the signal, and must be told what is true by then.
 */
export function heldSignal(signal: AbortSignal, look: () => void): AbortSignal {
  const inherited = (name: 'aborted' | 'reason'): (() => unknown) => {
    const get = Object.getOwnPropertyDescriptor(AbortSignal.prototype, name)!.get!;
    return () => {
      look();
      return get.call(signal);
    };
  };
  return Object.defineProperties(signal, {
    aborted: { get: inherited('aborted') },
    reason: { get: inherited('reason') },
    throwIfAborted: {
      value: () => {
        if (signal.aborted) throw signal.reason;
      },
    },
  });
}
