/** Numbers from 0 up to, but not including, 1. The same seed gives the same numbers, in every thread. */
export function randomFrom(seed: number): () => number;
/** An integer from 0 up to, but not including, the limit. */
export function below(random: () => number, limit: number): number;
