import { checkPart, checkString, type Names } from '../../common/checks.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import { checkNonEmpty, type LeaseStoreSource } from '../../lease/contract/lease-store.js';
import { checkTerms, type ServerTerms } from '../server-store.js';

const DEFAULT_PREFIX = 'stripelock/';

/** TLS options, for `tls`, with the names and meanings that `node:tls` gives them. */
export interface EtcdTls {
  /** Certificates of the authorities that sign the servers' certificates. Default: Node's built-in certificates. */
  ca?: string | Uint8Array | (string | Uint8Array)[];
  /** The certificate of this client, if the servers require one. */
  cert?: string | Uint8Array;
  /** Its private key. */
  key?: string | Uint8Array;
  /** The passphrase of the private key. */
  passphrase?: string;
  /** The name in the servers' certificate, if it differs from the host. */
  servername?: string;
  /** Whether the servers' certificate is checked. Default true. */
  rejectUnauthorized?: boolean;
}

/** An etcd user, for the option `credentials`. */
export interface EtcdCredentials {
  /** The name of the user in etcd. */
  username: string;
  /** The user's password, sent only to obtain a token. The token accompanies each request. */
  password: string;
}

/** Options of `etcdLeaseStore` (`stripelock/etcd`). */
export interface EtcdLeaseStoreOptions {
  /** The URLs at which clients reach the servers of one cluster: `http://` or `https://`, host and port. */
  endpoints: readonly string[];
  /**
   * Required if authentication is enabled on the cluster. The user's roles must allow reading and writing all keys with
   * the prefix.
   */
  credentials?: EtcdCredentials;
  /** For endpoints with `https://`. */
  tls?: EtcdTls;
  /** The text before the name of every key. Default "stripelock/". */
  prefix?: string;
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** How much faster a server's clock may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
}

/** The options, checked. */
export interface EtcdSettings extends ServerTerms {
  readonly urls: readonly URL[];
  readonly credentials: EtcdCredentials | undefined;
  readonly tls: EtcdTls | undefined;
  readonly prefix: string;
  /** Describes how another thread opens the same store. */
  readonly source: LeaseStoreSource;
}

const NAMES: Names<EtcdLeaseStoreOptions> = {
  endpoints: true,
  credentials: true,
  tls: true,
  prefix: true,
  timeout: true,
  drift: true,
};
const CREDENTIALS: Names<EtcdCredentials> = { username: true, password: true };
const TLS: Names<EtcdTls> = {
  ca: true,
  cert: true,
  key: true,
  passphrase: true,
  servername: true,
  rejectUnauthorized: true,
};

/** Checks the options and fills in defaults. */
export function resolveOptions(options: EtcdLeaseStoreOptions): EtcdSettings {
  const terms = checkTerms(options, NAMES);
  const { endpoints, credentials, tls, prefix } = options;
  const settings = {
    ...terms,
    urls: checkEndpoints(endpoints),
    credentials: credentials === undefined ? undefined : checkCredentials(credentials),
    tls: tls === undefined ? undefined : checkTls(tls),
    prefix: prefix === undefined ? DEFAULT_PREFIX : checkString(prefix, 'options.prefix'),
  };
  const { urls, ...rest } = settings;
  const copied = { ...rest, endpoints: urls.map(({ href }) => href) };
  return {
    ...settings,
    source: { module: 'stripelock/etcd', name: 'etcdLeaseStore', options: copied },
  };
}

function checkEndpoints(endpoints: unknown): URL[] {
  if (!Array.isArray(endpoints)) throw invalidArgType('options.endpoints', 'a list of URLs', endpoints);
  if (endpoints.length === 0) throw outOfRange('options.endpoints', 'a list of at least one URL', 'none');
  return endpoints.map((endpoint: unknown, i) => {
    const name = `options.endpoints[${i}]`;
    const text = checkNonEmpty(endpoint, name);
    const url = URL.canParse(text) ? new URL(text) : undefined;
    // The text is not repeated in the message, because it may contain a password.
    const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:';
    if (!isHttp) throw outOfRange(name, 'a URL that begins with http:// or https://', 'another');
    if (url.username === '' && url.password === '') return url;
    throw outOfRange(name, 'a URL without a user, which goes to options.credentials', 'one with a user');
  });
}

function checkCredentials(credentials: unknown): EtcdCredentials {
  // Error messages must not contain the password.
  if (typeof credentials === 'string') throw invalidArgType('options.credentials', 'an object', 'a string');
  checkPart(credentials, CREDENTIALS, 'options.credentials');
  const { username, password } = credentials as Partial<EtcdCredentials>;
  if (typeof password !== 'string') {
    throw invalidArgType('options.credentials.password', 'a string', typeof password);
  }
  return { username: checkNonEmpty(username, 'options.credentials.username'), password };
}

function checkTls(tls: unknown): EtcdTls {
  if (typeof tls === 'string') throw invalidArgType('options.tls', 'an object', 'a string');
  checkPart(tls, TLS, 'options.tls');
  return { ...(tls as EtcdTls) };
}
