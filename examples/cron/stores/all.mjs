/** Each in a file of its own, which loads its client. */
const stores = {
  sqlite: () => import('./sqlite.mjs'),
  redis: () => import('./redis.mjs'),
  etcd: () => import('./etcd.mjs'),
  postgres: () => import('./postgres.mjs'),
  mysql: () => import('./mysql.mjs'),
  mongodb: () => import('./mongodb.mjs'),
};

export const storeNames = Object.keys(stores);

/**
 * Opens the leases, and the journal that they guard, which refuses a token lower than one that it has seen:
 *
 *   has(night)                    whether the job of that night is done
 *   noteCrash()                   true for the first who calls it
 *   write(night, author, token)   false if a higher token has written before
 *   read()                        all nights, { night, author, token }
 */
export async function openStore(settings) {
  const { open, defaultUrl } = await stores[settings.store]();
  return open({ url: defaultUrl, ...settings });
}
