/* version.c - see version.h. The build's number is made by the Makefile.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/version.h"
#include "experiment/build_id.h"

const char fb_build[] = FB_BUILD;
const char *fb_commit = "unknown";
const char fb_program[] = "flexbudget " FB_VERSION ", build " FB_BUILD;
