/* test_base_terminal.c - colour and width; durations as people read them.
 *
 * A pseudo-terminal stands for a person's; a pipe for a program.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/terminal.h"
#include "base/time.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <time.h>

static int open_terminal(void)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    int slave;

    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return -1;
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    return slave;
}

static void a_file_is_no_terminal_and_has_no_colour(void **state)
{
    const int file = open("/dev/null", O_WRONLY);

    (void)state;
    assert_true(file >= 0);
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    assert_false(fb_terminal_is(file));
    assert_false(fb_terminal_has_colour(file));
    unsetenv("COLUMNS");
    assert_int_equal(fb_terminal_width(file), 80);
    setenv("COLUMNS", "132", 1);
    assert_int_equal(fb_terminal_width(file), 132);
    setenv("COLUMNS", "5", 1);
    assert_int_equal(fb_terminal_width(file), 20);
    setenv("COLUMNS", "99999999999999", 1);
    assert_int_equal(fb_terminal_width(file), 500);
    setenv("COLUMNS", "wide", 1);
    assert_int_equal(fb_terminal_width(file), 80);
    unsetenv("LINES");
    assert_int_equal(fb_terminal_height(file), 24);
    setenv("LINES", "50", 1);
    assert_int_equal(fb_terminal_height(file), 50);
    setenv("LINES", "0", 1);
    assert_int_equal(fb_terminal_height(file), 1);
    assert_false(fb_terminal_moves(file));
    close(file);
}

static void a_terminal_has_colour_unless_somebody_says_no(void **state)
{
    const struct winsize size = {.ws_row = 40, .ws_col = 111};
    const int terminal = open_terminal();

    (void)state;
    if (terminal < 0) skip_because("no pseudo-terminal can be opened here");
    assert_true(fb_terminal_is(terminal));
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
    assert_int_equal(fb_terminal_width(terminal), 111);
    assert_int_equal(fb_terminal_height(terminal), 40);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    assert_true(fb_terminal_has_colour(terminal));
    setenv("NO_COLOR", "", 1);
    assert_true(fb_terminal_has_colour(terminal));
    setenv("NO_COLOR", "1", 1);
    assert_false(fb_terminal_has_colour(terminal));
    assert_true(fb_terminal_moves(terminal)); /* it is asked for no colours alone */
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    assert_false(fb_terminal_has_colour(terminal));
    assert_false(fb_terminal_moves(terminal));
    unsetenv("TERM");
    assert_false(fb_terminal_has_colour(terminal));
    close(terminal);
}

static void durations_have_three_digits_or_two_units(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } known[] = {
        {0, "0 ns"},
        {999, "999 ns"},
        {1000, "1.00 us"},
        {9995, "10.0 us"},
        {48200000, "48.2 ms"},
        {99949999, "99.9 ms"},
        {999499999, "999 ms"},
        {999500000, "1.00 s"},
        {6910000000, "6.91 s"},
        {59499999999, "59.5 s"},
        {59999999999, "1m00s"},
        {1092000000000, "18m12s"},
        {7500000000000, "2h05m"},
        {273600000000000, "3d04h"},
        {-6910000000, "-6.91 s"},
        {INT64_MIN, "-106751d23h"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char text[FB_TIME_SHORT];

        fb_time_print(known[i].ns, text);
        assert_string_equal(text, known[i].text);
    }
}

static void clocks_go_forward(void **state)
{
    const int64_t ns = fb_time_ns(), cpu = fb_time_cpu_ns();
    struct tm parts = {0};
    char utc[FB_TIME_UTC];
    time_t then;

    (void)state;
    while (fb_time_cpu_ns() < cpu + 1000000) {
    }
    assert_true(fb_time_ns() > ns);
    fb_time_utc(utc);
    assert_int_equal(strlen(utc), FB_TIME_UTC - 1);
    assert_int_equal(sscanf(utc, "%d-%d-%dT%d:%d:%dZ", &parts.tm_year, &parts.tm_mon,
                            &parts.tm_mday, &parts.tm_hour, &parts.tm_min,
                            &parts.tm_sec),
                     6);
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    then = timegm(&parts);
    assert_in_range(time(NULL) - then, 0, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_no_terminal_and_has_no_colour),
        cmocka_unit_test(a_terminal_has_colour_unless_somebody_says_no),
        cmocka_unit_test(durations_have_three_digits_or_two_units),
        cmocka_unit_test(clocks_go_forward),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
