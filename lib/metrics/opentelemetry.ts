/**
 * The counters of locks and leases for OpenTelemetry.
 *
 * @module stripelock/metrics/opentelemetry
 */

export { observe, type OpenTelemetryMeter, type OpenTelemetryResult } from './meter.js';
