/* version.h - the number of this version of the program.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_VERSION_H
#define FB_EXPERIMENT_VERSION_H

#define FB_VERSION "0.1.0"

#endif
