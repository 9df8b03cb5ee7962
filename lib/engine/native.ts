export { loadNativeEngine } from './native/engine.js';
export { OtherVersion } from './native/running-engine.js';
