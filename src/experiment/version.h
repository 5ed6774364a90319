/* version.h - the number of this version of the program, and its name with it: what is
 * stored with results.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_VERSION_H
#define FB_EXPERIMENT_VERSION_H

#define FB_VERSION "0.1.0"
#define FB_PROGRAM "flexbudget " FB_VERSION

#endif
