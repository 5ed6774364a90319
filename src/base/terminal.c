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

/* What the terminal says of itself, else the environment, else the usual. */
static int64_t size_of(unsigned short own, const char *variable, int64_t usual)
{
    const char *text = getenv(variable);
    int64_t size = usual;

    if (own > 0) return own;
    return text != NULL && fb_parse_int(text, &size) ? size : usual;
}

int fb_terminal_width(int descriptor)
{
    struct winsize size = {0};
    int64_t width;

    if (ioctl(descriptor, TIOCGWINSZ, &size) != 0) size.ws_col = 0;
    width = size_of(size.ws_col, "COLUMNS", 80);
    return width < 20 ? 20 : width > 500 ? 500 : (int)width;
}

int fb_terminal_height(int descriptor)
{
    struct winsize size = {0};
    int64_t height;

    if (ioctl(descriptor, TIOCGWINSZ, &size) != 0) size.ws_row = 0;
    height = size_of(size.ws_row, "LINES", 24);
    return height < 1 ? 1 : height > 1000 ? 1000 : (int)height;
}

bool fb_terminal_moves(int descriptor)
{
    const char *term = getenv("TERM");

    return term != NULL && term[0] != 0 && strcmp(term, "dumb") != 0 &&
           fb_terminal_is(descriptor);
}

bool fb_terminal_has_colour(int descriptor)
{
    const char *no_color = getenv("NO_COLOR");

    return (no_color == NULL || no_color[0] == 0) && fb_terminal_moves(descriptor);
}
