/**
 * The counters of locks and leases for Prometheus, through `prom-client`.
 *
 * @module stripelock/metrics/prom-client
 */

export { register, type PromClientRegistry } from './registry.js';
