export { loadNativeEngine } from './native/engine.js';
