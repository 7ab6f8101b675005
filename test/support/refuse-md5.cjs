// What a FIPS build of OpenSSL does: `node --require refuse-md5.cjs`, for worker threads and children too by NODE_OPTIONS.
const crypto = require('node:crypto');
const { syncBuiltinESMExports } = require('node:module');

const { createHash } = crypto;
crypto.createHash = (algorithm, ...rest) => {
  if (/^md5$/i.test(algorithm)) throw new Error('error:0308010C:digital envelope routines::unsupported');
  return createHash(algorithm, ...rest);
};
syncBuiltinESMExports();
