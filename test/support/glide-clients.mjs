import { isInstalled, loadPackage } from './recipe-packages.mjs';

const PACKAGE = '@valkey/valkey-glide';

export const hasGlide = isInstalled(PACKAGE);

/**
 * @param {'GlideClient' | 'GlideClusterClient'} name Of the class.
 * @param {number} port Of this machine.
 * @param {object} options Further ones, of the client.
 * @returns {Promise<{ client: object, close: () => void }>}
 */
export async function connectGlide(name, port, options = {}) {
  const glide = loadPackage(PACKAGE);
  // It prints each error that a server replies, such as NOSCRIPT.
  glide.Logger.setLoggerConfig('off');
  const addresses = [{ host: '127.0.0.1', port }];
  const connectionBackoff = { numberOfRetries: 5, factor: 10, exponentBase: 2 };
  // Far longer than a server of a busy machine takes.
  const client = await glide[name].createClient({
    addresses,
    connectionBackoff,
    requestTimeout: 30_000,
    ...options,
  });
  return { client, close: () => client.close() };
}
