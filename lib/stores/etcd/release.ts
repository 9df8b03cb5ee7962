import type { Grant } from './grant.js';
import { isUnchanged, kvOf, range, remove } from './messages.js';
import type { Operation } from './operation.js';
import type { Parts } from './parts.js';
import { execute, grantOf, read } from './requests.js';

/**
 * Frees the keys that the owner has; says which. A key is removed only as it was found, so that a request that comes late
 * frees no later grant.
 */
export async function release(
  parts: Parts,
  operation: Operation,
  names: readonly string[],
  owner: string,
): Promise<boolean[]> {
  const freed = names.map(() => false);
  const found = names.map((name) => parts.held.of(name, owner)?.grant);
  const unknown = names.map((_, i) => i).filter((i) => found[i] === undefined);
  if (unknown.length > 0) {
    const { grants } = await read(
      parts.cluster,
      operation,
      unknown.map((i) => names[i]!),
    );
    unknown.forEach((i, j) => (found[i] = grants[j]));
  }
  let open = names.map((_, i) => i);
  for (;;) {
    open = open.filter((i) => found[i]?.owner === owner);
    if (open.length === 0) return freed;
    const grants = open.map((i) => found[i]!);
    const txns = open.map((i, j) => ({
      compare: isUnchanged(names[i]!, grants[j]!.kv),
      success: [remove(names[i]!)],
      failure: [range(names[i]!)],
    }));
    try {
      const { parts: answers, again } = await execute(parts.cluster, operation, txns);
      for (const [j, i] of open.entries()) {
        const { succeeded = false, responses } = answers[j]!;
        if (succeeded) {
          freed[i] = true;
          found[i] = undefined;
          parts.dispose(names[i]!, grants[j]!);
          continue;
        }
        found[i] = grantOf(kvOf(responses?.[0]));
        if (again && found[i]?.lease !== grants[j]!.lease) {
          freed[i] = await wasFreed(parts, operation, names[i]!, grants[j]!);
        }
        if (found[i]?.owner !== owner) parts.held.forget(names[i]!);
      }
    } catch (error) {
      for (const i of open) parts.held.forget(names[i]!);
      throw error;
    }
  }
}

/** Whether an earlier send has freed it. If it had expired, its etcd lease would be gone. */
function wasFreed(parts: Parts, operation: Operation, name: string, grant: Grant): Promise<boolean> {
  parts.held.forget(name);
  return parts.leases.revoke(operation, grant.lease);
}
