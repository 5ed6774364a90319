/* terminal.c - asks the terminal and the environment.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/terminal.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool fb_terminal_is(int descriptor)
{
    return isatty(descriptor) == 1;
}

int fb_terminal_width(int descriptor)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    int64_t width = 80;

    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        width = size.ws_col;
    else if (columns != NULL && !fb_parse_int(columns, &width))
        width = 80;
    return width < 20 ? 20 : width > 500 ? 500 : (int)width;
}

bool fb_terminal_has_colour(int descriptor)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

    if (no_color != NULL && no_color[0] != 0) return false;
    if (term == NULL || strcmp(term, "dumb") == 0) return false;
    return fb_terminal_is(descriptor);
}
