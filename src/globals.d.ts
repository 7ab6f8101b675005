/** The package's version, put in by the build. */
declare const CAPTURE_VERSION: string;
/** Where the directory of our package is, from that of the program, or as a whole path; put in by the build. */
declare const CAPTURE_ROOT: string;
/** Only while the build itself runs the program: what V8 has compiled is written beside it (build.mjs). */
declare const CAPTURE_KEEPS_CODE: boolean;
/** What `capture report` writes around its data: the sources in src/array/report/page, as the build has made them. */
declare const REPORT_PAGE: { readonly markup: string; readonly style: string; readonly script: string };
/** What `capture template` prints, by name: examples, as the build has found them. */
declare const JOB_TEMPLATES: Readonly<Record<string, string>>;
