/** The package's version, put in by the build. */
declare const CAPTURE_VERSION: string;
