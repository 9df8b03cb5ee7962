export { JavaScriptEngine } from './javascript/engine.js';
