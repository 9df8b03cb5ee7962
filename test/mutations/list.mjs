import { nativeMutations } from './native.mjs';

export const mutations = [...nativeMutations];
