import { availableParallelism, loadavg } from 'node:os';

/**
 * The factor by which other programs slow this one down. A time limit holds if a thread gets a processor when it needs
 * one. With several programs for each processor, everything takes longer by this factor. It is 1 on a free machine, and
 * if the load is unknown (Windows).
 */
export function competition() {
  return Math.max(1, loadavg()[0] / availableParallelism());
}
