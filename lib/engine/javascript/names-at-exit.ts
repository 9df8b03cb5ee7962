/** What a thread does with exact keys before it ends. */
interface Leaves {
  leave(): void;
}

const open = new Set<WeakRef<Leaves>>();
let listens = false;

/** Has `names` unpin what this thread does not use, before it ends. Not where the thread is terminated. */
export function leaveAtExit(names: Leaves): void {
  for (const ref of open) if (ref.deref() === undefined) open.delete(ref);
  open.add(new WeakRef(names));
  if (listens) return;
  listens = true;
  process.once('exit', () => {
    for (const ref of open) ref.deref()?.leave();
  });
}
