/* test_base_file.c - whole files in and out; a crash or a full disk leaves the old one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/memory.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char folder[TEST_PATH];

static int make_folder(void **state)
{
    (void)state;
    test_folder(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static int files_in_folder(void)
{
    DIR *open_folder = opendir(folder);
    int n = 0;

    assert_non_null(open_folder);
    while (readdir(open_folder) != NULL)
        n++;
    closedir(open_folder);
    return n - 2; /* without . and .. */
}

static void assert_holds(const char *path, const char *wanted)
{
    char *text;
    size_t n;

    assert_ok(fb_file_read(&text, &n, path, 1000));
    assert_int_equal(n, strlen(wanted));
    assert_string_equal(text, wanted);
    fb_free(text);
}

static void addresses_of_mappings_are_known(void **state)
{
    fb_map one, two;

    (void)state;
    assert_ok(fb_file_write(test_path(folder, "1"), "12345678", 8));
    assert_ok(fb_file_write(test_path(folder, "2"), "1234", 4));
    assert_ok(fb_map_open(&one, test_path(folder, "1")));
    assert_ok(fb_map_open(&two, test_path(folder, "2")));
    assert_true(fb_map_holds(one.bytes) && fb_map_holds(one.bytes + 7));
    assert_true(fb_map_holds(two.bytes + 3));
    assert_false(fb_map_holds(one.bytes + 8));
    assert_false(fb_map_holds(NULL) || fb_map_holds(&one));
    fb_map_close(&two);
    assert_true(fb_map_holds(one.bytes));
    fb_map_close(&one);
}

/* A mapping that a handler would not know is not made. */
static void every_open_mapping_is_known(void **state)
{
    static fb_map all[FB_MOST_MAPS];
    fb_map more;

    (void)state;
    assert_ok(fb_file_write(test_path(folder, "1"), "12345678", 8));
    for (int i = 0; i < FB_MOST_MAPS; i++)
        assert_ok(fb_map_open(&all[i], test_path(folder, "1")));
    for (int i = 0; i < FB_MOST_MAPS; i++)
        assert_true(fb_map_holds(all[i].bytes + 7));
    assert_fails(fb_map_open(&more, test_path(folder, "1")), FB_IO,
                 "files are mapped already");
    assert_null(more.bytes);
    fb_map_close(&all[FB_MOST_MAPS / 2]);
    assert_ok(fb_map_open(&more, test_path(folder, "1")));
    fb_map_close(&more);
    for (int i = 0; i < FB_MOST_MAPS; i++)
        fb_map_close(&all[i]);
}

static bool is_in_state(const char *path, fb_file_state state)
{
    return fb_file_state_equal(fb_file_state_of(path), state);
}

static void a_file_that_changed_is_in_another_state(void **state)
{
    const struct timespec times[2] = {{.tv_sec = 1, .tv_nsec = 2},
                                      {.tv_sec = 3, .tv_nsec = 4}};
    const fb_file_state none = {0};
    fb_file_state before;
    char path[2 * TEST_PATH];
    fb_map map;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/state", folder);
    assert_true(is_in_state(path, none));
    test_write(path, "12345");
    before = fb_file_state_of(path);
    assert_int_equal(before.size, 5);
    assert_true(is_in_state(path, before) && !is_in_state(path, none));
    assert_ok(fb_map_open(&map, path));
    assert_true(fb_file_state_equal(map.state, before));
    fb_map_close(&map);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0); /* the same bytes */
    assert_false(is_in_state(path, before));
    before = fb_file_state_of(path);
    assert_int_equal(before.modified, 3);
    assert_int_equal(before.modified_ns, 4);
    test_write(path, "1234");
    assert_false(is_in_state(path, before));
    before = fb_file_state_of(path);
    test_write(test_path(folder, "other"), "1234");
    assert_int_equal(rename(test_path(folder, "other"), path), 0);
    assert_false(is_in_state(path, before));
    assert_int_equal(unlink(path), 0);
    assert_true(is_in_state(path, none));
}

static void a_file_is_mapped_and_read_whole(void **state)
{
    const char *path = test_path(folder, "x");
    fb_map map;

    (void)state;
    test_write(path, "twelve bytes");
    assert_ok(fb_map_open(&map, path));
    assert_int_equal(map.n, 12);
    assert_memory_equal(map.bytes, "twelve bytes", 12);
    fb_map_close(&map);
    fb_map_close(&map);
    assert_holds(path, "twelve bytes");
}

static void what_is_not_a_file_is_refused(void **state)
{
    char *text;
    size_t n;
    fb_map map;

    (void)state;
    test_write(test_path(folder, "empty"), "");
    assert_fails(fb_map_open(&map, test_path(folder, "none")), FB_NOT_FOUND,
                 "cannot open");
    assert_fails(fb_map_open(&map, test_path(folder, "empty")), FB_FORMAT, "empty");
    assert_fails(fb_map_open(&map, folder), FB_FORMAT, "a folder");
    assert_fails(fb_map_open(&map, "/dev/null"), FB_FORMAT, "not a regular file");
    assert_null(map.bytes);
    assert_fails(fb_file_read(&text, &n, test_path(folder, "none"), 10), FB_NOT_FOUND,
                 "cannot open");
    assert_fails(fb_file_read(&text, &n, folder, 10), FB_FORMAT, "a folder");
    assert_null(text);
    assert_holds(test_path(folder, "empty"), "");
}

static void make_socket(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int file = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(snprintf(name.sun_path, sizeof name.sun_path, "%s", path) <
                (int)sizeof name.sun_path);
    assert_int_equal(bind(file, (const struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(close(file), 0);
}

/* Reading a pipe would wait for a writer, reading /dev/zero would not end. */
static void what_has_no_end_is_refused_before_it_is_opened(void **state)
{
    const char *const paths[] = {"/dev/zero", "pipe", "socket"};

    (void)state;
    assert_int_equal(mkfifo(test_path(folder, "pipe"), 0666), 0);
    make_socket(test_path(folder, "socket"));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *path = i == 0 ? paths[i] : test_path(folder, paths[i]);
        char *text;
        size_t n;
        fb_map map;
        FILE *file;

        (void)alarm(20); /* a hang is a failure */
        assert_fails(fb_map_open(&map, path), FB_FORMAT, "not a regular file");
        assert_fails(fb_file_read(&text, &n, path, 10), FB_FORMAT,
                     "not a regular file");
        assert_fails(fb_file_open(&file, path), FB_FORMAT, "not a regular file");
        assert_null(file);
        (void)alarm(0);
    }
}

static void a_file_is_read_in_pieces(void **state)
{
    FILE *file;
    char bytes[8] = "";

    (void)state;
    test_write(test_path(folder, "x"), "12345");
    assert_ok(fb_file_open(&file, test_path(folder, "x")));
    assert_int_equal(fread(bytes, 1, 3, file), 3);
    assert_string_equal(bytes, "123");
    assert_int_equal(fclose(file), 0);
    assert_fails(fb_file_open(&file, test_path(folder, "none")), FB_NOT_FOUND,
                 "cannot open");
    assert_null(file);
}

static void a_file_is_read_up_to_its_largest_size(void **state)
{
    const char *path = test_path(folder, "x");
    char *text;
    size_t n;

    (void)state;
    test_write(path, "12345");
    assert_ok(fb_file_read(&text, &n, path, 5));
    fb_free(text);
    assert_fails(fb_file_read(&text, &n, path, 4), FB_FORMAT, "larger than 4 bytes");
    assert_null(text);
    assert_ok(
        fb_file_read(&text, &n, "/proc/self/status", 100000)); /* size 0 in stat */
    assert_true(n > 0);
    fb_free(text);
}

static void writing_replaces_the_file_and_leaves_nothing_beside_it(void **state)
{
    const int before = files_in_folder();
    struct stat info;
    char path[2 * TEST_PATH];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/new", folder);
    assert_ok(fb_file_write(path, "first", 5));
    assert_holds(path, "first");
    assert_int_equal(chmod(path, 0640), 0);
    assert_ok(fb_file_write(path, "second", 6));
    assert_holds(path, "second");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_ok(fb_file_write(path, NULL, 0));
    assert_holds(path, "");
    assert_int_equal(files_in_folder(), before + 1);
}

static void a_link_stays_a_link(void **state)
{
    char path[2 * TEST_PATH];
    struct stat info;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/link", folder);
    test_write(test_path(folder, "target"), "old");
    assert_int_equal(symlink("target", path), 0);
    assert_ok(fb_file_write(path, "new", 3));
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_holds(test_path(folder, "target"), "new");
}

static void a_device_is_written_to_and_not_replaced(void **state)
{
    struct stat info;

    (void)state;
    assert_ok(fb_file_write("/dev/null", "x", 1));
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_fails(fb_file_write("/dev/full", "x", 1), FB_IO, "cannot write");
}

static void a_write_that_fails_leaves_the_old_file(void **state)
{
    static char many[100000];
    struct rlimit old, small;
    char path[2 * TEST_PATH];
    int before;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/kept", folder);
    assert_ok(fb_file_write(path, "old", 3));
    before = files_in_folder();
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit is then an error */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 50000, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_fails(fb_file_write(path, many, sizeof many), FB_IO, "cannot write");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_holds(path, "old");
    assert_int_equal(files_in_folder(), before);
    assert_fails(fb_file_write(test_path(folder, "none/x"), "x", 1), FB_IO,
                 "cannot write");
    assert_fails(fb_file_write(folder, "x", 1), FB_IO, "a folder");
}

static void a_lack_of_memory_is_said(void **state)
{
    char *text;
    size_t n;

    (void)state;
    test_write(test_path(folder, "x"), "12345");
    fb_memory_fail_at(1);
    assert_fails(fb_file_read(&text, &n, test_path(folder, "x"), 10), FB_NO_MEMORY,
                 "5 bytes");
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_mappings_are_known),
        cmocka_unit_test(every_open_mapping_is_known),
        cmocka_unit_test(a_file_that_changed_is_in_another_state),
        cmocka_unit_test(a_file_is_mapped_and_read_whole),
        cmocka_unit_test(what_is_not_a_file_is_refused),
        cmocka_unit_test(what_has_no_end_is_refused_before_it_is_opened),
        cmocka_unit_test(a_file_is_read_in_pieces),
        cmocka_unit_test(a_file_is_read_up_to_its_largest_size),
        cmocka_unit_test(writing_replaces_the_file_and_leaves_nothing_beside_it),
        cmocka_unit_test(a_link_stays_a_link),
        cmocka_unit_test(a_device_is_written_to_and_not_replaced),
        cmocka_unit_test(a_write_that_fails_leaves_the_old_file),
        cmocka_unit_test(a_lack_of_memory_is_said),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
