/**
 * What keeps a hold from expiring while the event loop of its holder is blocked. Nothing here may throw.
 */
export interface Background {
  /** Whether it renews while the event loop turns, too, so that nobody else need. */
  readonly renews: boolean;
  /** The local deadline that it has achieved; undefined if the hold knows that itself. */
  readonly deadline: number | undefined;
  /** Called when the local deadline has passed: whether the hold's deadline is ahead again. */
  recover(): boolean;
  /** Only if it {@link renews}. As `Hold.renew`. */
  renew(ttl: number): Promise<boolean>;
  /** From now on it extends nothing. Resolves when nothing that it has sent can reach the store any more. */
  end(): Promise<void>;
}
