/** The package's version, put in by the build. */
declare const CAPTURE_VERSION: string;
/** Where the directory of our package is, from that of the program, or as a whole path; put in by the build. */
declare const CAPTURE_ROOT: string;
/** What `capture report` writes around its data, as JSON: the sources in src/array/report/page, as the build has made them. */
declare const REPORT_PAGE: string;
/** What `capture template` prints, as JSON, by name: examples, as the build has found them. */
declare const JOB_TEMPLATES: string;
