/**
 * Makes a signal look before it answers. Its event is sent by a timer, which a blocked event loop delays; code that
 * runs first after such a block asks the signal, and must be told what is true by then.
 */
export function heldSignal(signal: AbortSignal, look: () => boolean): AbortSignal {
  const inherited = (name: 'aborted' | 'reason'): (() => unknown) => {
    const property = Object.getOwnPropertyDescriptor(AbortSignal.prototype, name);
    return (): unknown => {
      look();
      return property?.get?.call(signal) as unknown;
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
