// Only the md5 of hash-wasm. It is a program of its own (build.mjs), loaded only where OpenSSL refuses md5.
export { createMD5 } from 'hash-wasm';
