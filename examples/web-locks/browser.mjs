// What the import of stripelock/web-locks is in a browser: see index.html.
export const { locks } = globalThis.navigator;
