/** The package's version, put in by the build. */
declare const CAPTURE_VERSION: string;
/** Only while the build itself runs the program: what V8 has compiled is written beside it (build.mjs). */
declare const CAPTURE_KEEPS_CODE: boolean;
