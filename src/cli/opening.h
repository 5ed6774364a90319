/* opening.h - what the commands that compute open: settings of the environment,
 * operators, the model; and how they are asked to stop.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_OPENING_H
#define FB_CLI_OPENING_H

#include "spec/spec.h"

#include <signal.h>

/* FLEXBUDGET_<OPTION>; a name that nothing reads is warned of. */
FB_MUST_USE fb_status fb_open_environment(fb_spec *spec);
/* How operators are opened for a model. */
typedef enum fb_open_for {
    FB_OPEN_FOR_RESULTS, /* a row's numbers do not depend on what else is computed */
    FB_OPEN_FOR_SPEED,   /* where numbers are not stored, a backend may let them */
} fb_open_for;

/* The operators of the settings. */
FB_MUST_USE fb_status fb_open_ops(fb_ops **out, const fb_spec *spec,
                                  fb_open_for purpose);
/* The model of the settings, bound to them. `ops_out`: opened for its weights; NULL: it
 * is opened without. What was opened stays with the caller also where it failed. */
FB_MUST_USE fb_status fb_open_model(fb_model **out, fb_ops **ops_out, fb_spec *spec,
                                    fb_open_for purpose);
/* Adds what computes: "NAME (F32, kv f32)", under a device of torch also that one. */
void fb_open_say_model(fb_text *out, const fb_spec *spec, const fb_model_facts *facts);
/* An fb_report that warns. */
void fb_open_warn(void *self, const char *sentence);

/* An fb_report that says errors; `self` is the int that counts them. */
void fb_open_problem(void *self, const char *sentence);
/* The exit code of what ended so; said, unless one of `n_said` errors has said it. */
int fb_open_end(fb_status status, int n_said);

/* From now on SIGINT, SIGTERM and SIGUSR1 set this and no more; but a second interrupt
 * ends the program with 130. */
extern volatile sig_atomic_t fb_stop_asked;
void fb_stop_catch(void);

#endif
