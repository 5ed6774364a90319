/* version.h - which program this is: what is stored with results.
 *
 * The version is given by people, the build by the sources themselves: two programs of
 * one version may be built of different rules, and their cells do not mix.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_VERSION_H
#define FB_EXPERIMENT_VERSION_H

#define FB_VERSION "0.1.0"

/* The first 12 hex digits of the SHA-256 over the sources that make results. */
extern const char fb_build[];
/* "3f2a9c1d5e6f", "3f2a9c1d5e6f-dirty": the program sets it before anything else. "unknown"
 * where the sources are no checkout, and in other people's processes. */
extern const char *fb_commit;
/* "flexbudget 0.1.0, build 1a2b3c4d5e6f" */
extern const char fb_program[];

#endif
