/**
 * Makes a signal call `look` before it answers. A timer sends its event, and a blocked event loop delays timers. Code
 * that reads the signal first after such a block must see the current state.
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
