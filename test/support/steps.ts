/** The prototype of the iterators of a collection. */
function iteratorOf(collection: Iterable<unknown>): Iterator<unknown> {
  return Object.getPrototypeOf(collection[Symbol.iterator]()) as Iterator<unknown>;
}

/** Replaces a method of built-in objects. Returns a function that puts it back. */
function replace<T extends object, N extends keyof T>(
  on: T,
  name: N,
  method: (before: T[N]) => T[N],
): () => void {
  const before = on[name];
  on[name] = method(before);
  return () => void (on[name] = before);
}

/**
 * The elements of maps, sets and arrays that iterators visit in this thread while `run` runs: a measure of work that does not
 * depend on the machine.
 */
export async function stepsOf(run: () => Promise<void>): Promise<number> {
  let steps = 0;
  const iterators = [new Map(), new Set(), []].map(iteratorOf);
  const undo = iterators.map((iterator) =>
    replace(
      iterator,
      'next',
      (next) =>
        function (this: Iterator<unknown>) {
          steps++;
          return next.call(this);
        },
    ),
  );
  for (const { prototype } of [Map, Set]) {
    undo.push(
      replace(
        prototype as Set<unknown>,
        'forEach',
        (forEach) =>
          function (this: Set<unknown>, visit, on) {
            steps += this.size;
            forEach.call(this, visit, on);
          },
      ),
    );
  }
  try {
    await run();
  } finally {
    for (const one of undo) one();
  }
  return steps;
}
