import { checkPart, checkString, type Names } from '../../common/checks.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import { checkNonEmpty, type LeaseStoreSource } from '../../lease/contract/lease-store.js';
import { checkTerms, type ServerTerms } from '../server-store.js';

const DEFAULT_PREFIX = 'stripelock/';

/** TLS options for `https://` endpoints, with the same names and meanings as in `node:tls`. */
export interface EtcdTls {
  /**
   * Certificates of the authorities that signed the servers' certificates. Default: Node's built-in
   * certificates.
   */
  ca?: string | Uint8Array | (string | Uint8Array)[];
  /** The certificate of this client, if the servers require one. */
  cert?: string | Uint8Array;
  /** The private key of `cert`. */
  key?: string | Uint8Array;
  /** The passphrase of `key`. */
  passphrase?: string;
  /** The host name in the servers' certificates, if it differs from the host name in the URL. */
  servername?: string;
  /** Whether to verify the servers' certificates. Default true. */
  rejectUnauthorized?: boolean;
}

/** The name and password of an etcd user. */
export interface EtcdCredentials {
  /** The name of the user in etcd. */
  username: string;
  /**
   * The user's password. The store sends the password only to obtain an authentication token, and sends this
   * token with each request.
   */
  password: string;
}

/** Options of `etcdLeaseStore` (`stripelock/etcd`). */
export interface EtcdLeaseStoreOptions {
  /** The client URLs of the servers of one cluster. Each has `http://` or `https://`, a host and a port. */
  endpoints: readonly string[];
  /**
   * Required if authentication is enabled on the cluster. The user's roles must allow reading and writing all
   * keys with the prefix.
   */
  credentials?: EtcdCredentials;
  /** TLS options for endpoints with `https://`. */
  tls?: EtcdTls;
  /** The text before the name of every key. Default "stripelock/". */
  prefix?: string;
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** How much faster a server's clock may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
}

/** The checked options, with defaults for missing ones. */
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
    // The message does not repeat the text, because the text may contain a password.
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
