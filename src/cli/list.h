/* list.h - every command, once, in the order of the help.
 *
 * SPDX-License-Identifier: MIT
 */
FB_COMMAND(run)
FB_COMMAND(ask)
FB_COMMAND(bench)
FB_COMMAND(compare)
FB_COMMAND(choose)
FB_COMMAND(report)
FB_COMMAND(export)
FB_COMMAND(verify)
FB_COMMAND(rules)
FB_COMMAND(tasks)
FB_COMMAND(model)
FB_COMMAND(doctor)
FB_COMMAND(help)
FB_COMMAND(version)
