// The md5 of hash-wasm, alone: a program of its own (build.mjs), that is loaded only where OpenSSL refuses md5.
export { createMD5 } from 'hash-wasm';
