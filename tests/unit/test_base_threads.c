/* test_base_threads.c - every item of a loop is handled once, whatever the threads do.
 *
 * Run under VARIANT=tsan this also shows that the pool has no races.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/cpus.h"
#include "base/memory.h"
#include "base/threads.h"
#include "tests/support/test.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { ITEMS = 10007 };

struct loop {
    int64_t visits[ITEMS];
};

static void visit(void *context, int64_t begin, int64_t end, int thread)
{
    struct loop *loop = context;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        loop->visits[i]++;
}

static void every_item_is_visited_once_by_any_number_of_threads(void **state)
{
    static struct loop loop;

    (void)state;
    for (int n = 1; n <= 9; n++) {
        const int64_t sizes[] = {0, 1, 2, n - 1, n, n + 1, 100, ITEMS};
        fb_threads *threads;

        assert_ok(fb_threads_new(&threads, n));
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            memset(&loop, 0, sizeof loop);
            fb_parallel(threads, sizes[s], visit, &loop);
            for (int64_t i = 0; i < ITEMS; i++)
                assert_int_equal(loop.visits[i], i < sizes[s]);
        }
        fb_threads_free(threads);
    }
}

static void note_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    ((int64_t *)context)[begin] = end;
}

/* Whoever takes them, the ranges are the same. */
static void ranges_get_smaller_towards_the_end(void **state)
{
    enum { N = 100, THREADS = 4 };
    int64_t end_of[N] = {0};
    int64_t begin = 0;
    fb_threads *threads;

    (void)state;
    assert_ok(fb_threads_new(&threads, THREADS));
    assert_int_equal(fb_threads_count(threads), THREADS);
    fb_parallel(threads, N, note_range, end_of);
    while (begin < N) {
        const int64_t share = (N - begin) / (2 * THREADS);

        assert_int_equal(end_of[begin], begin + (share > 1 ? share : 1));
        begin = end_of[begin];
    }
    assert_int_equal(begin, N);
    fb_threads_free(threads);
}

static void add_one(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t i = begin; i < end; i++)
        ((int64_t *)context)[i]++;
}

/* Many short loops, with pauses now and then so that the workers fall asleep. */
static void short_loops_in_a_row_lose_nothing(void **state)
{
    const int64_t rounds = long_or_short(1000000, 3000);
    const int counts[] = {2, 3, 8};

    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        int64_t items[16] = {0};
        fb_threads *threads;

        assert_ok(fb_threads_new(&threads, counts[c]));
        for (int64_t r = 0; r < rounds; r++) {
            const struct timespec moment = {.tv_nsec = 200000};

            fb_parallel(threads, 16, add_one, items);
            if (r % 500 == 0) (void)nanosleep(&moment, NULL);
        }
        fb_threads_free(threads);
        for (int i = 0; i < 16; i++)
            assert_int_equal(items[i], rounds);
    }
}

static void a_pool_can_be_made_and_freed_without_a_loop(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);

    (void)state;
    for (int i = 0; i < 50; i++) {
        fb_threads *threads;

        assert_ok(fb_threads_new(&threads, 3));
        fb_threads_free(threads);
    }
    fb_threads_free(NULL);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

static void impossible_numbers_of_threads_are_refused(void **state)
{
    fb_threads *threads;

    (void)state;
    assert_fails(fb_threads_new(&threads, -1), FB_USAGE, "1 to 1024");
    assert_null(threads);
    assert_fails(fb_threads_new(&threads, 1025), FB_USAGE, "1 to 1024");
    fb_memory_fail_at(1);
    assert_fails(fb_threads_new(&threads, 2), FB_NO_MEMORY, "2 threads");
    assert_null(threads);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CAN_LIMIT_MEMORY = 0 }; /* the sanitizers reserve terabytes of addresses */
#else
enum { CAN_LIMIT_MEMORY = 1 };
#endif

/* In a child process: addresses for a few stacks only. Gives the number of threads, or
 * 0 if the loop went wrong. */
static int threads_under_a_memory_limit(void)
{
    const struct rlimit limit = {.rlim_cur = 40 << 20, .rlim_max = 40 << 20};
    static struct loop loop;
    fb_threads *threads;
    int n;

    if (setrlimit(RLIMIT_AS, &limit) != 0) return 0;
    if (fb_threads_new(&threads, 60) != FB_OK) return 0;
    n = fb_threads_count(threads);
    fb_parallel(threads, ITEMS, visit, &loop);
    for (int64_t i = 0; i < ITEMS; i++)
        if (loop.visits[i] != 1) n = 0;
    fb_threads_free(threads);
    return n;
}

static void threads_that_cannot_be_made_leave_their_work_to_the_others(void **state)
{
    pid_t child;
    int status;

    (void)state;
    if (!CAN_LIMIT_MEMORY) skip_because("memory cannot be limited under a sanitizer");
    child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(threads_under_a_memory_limit());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_in_range(WEXITSTATUS(status), 1, 59);
}

/* --- how many CPUs there are --- */

static void affinity_limits_the_threads(void **state)
{
    cpu_set_t old, one;
    size_t first = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof old, &old), 0);
    while (!CPU_ISSET(first, &old))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_in_range(fb_threads_available(), 1, CPU_COUNT(&old));
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(fb_threads_available(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof old, &old), 0);
}

static void make_folders(const char *root)
{
    const char *folders[] = {"a", "a/b", "cpu,cpuacct", "cpu,cpuacct/a"};

    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        assert_int_equal(mkdir(test_path(root, folders[i]), 0700), 0);
}

static int cpus_of(const char *root, const char *membership)
{
    char file[2 * TEST_PATH];

    (void)snprintf(file, sizeof file, "%s/membership", root);
    test_write(file, membership);
    return fb_cpus_of_cgroup(file, root);
}

static void a_quota_of_any_group_above_counts(void **state)
{
    char root[TEST_PATH];

    (void)state;
    test_folder(root);
    make_folders(root);
    test_write(test_path(root, "cpu.max"), "max 100000\n");
    assert_int_equal(cpus_of(root, "0::/a/b\n"), 0);
    test_write(test_path(root, "a/b/cpu.max"), "350000 100000\n");
    assert_int_equal(cpus_of(root, "0::/a/b\n"), 4);
    test_write(test_path(root, "a/cpu.max"), "200000 100000\n");
    assert_int_equal(cpus_of(root, "0::/a/b\n"), 2);
    test_write(test_path(root, "cpu.max"), "50000 100000\n");
    assert_int_equal(cpus_of(root, "0::/a/b\n"), 1);
    assert_int_equal(cpus_of(root, "0::/not/visible/here\n"), 1);
    assert_int_equal(cpus_of(root, "0::/\n"), 1);
    test_folder_remove(root);
}

static void version_1_of_cgroups_is_understood(void **state)
{
    const char *membership = "12:memory:/a\n4:cpu,cpuacct:/a\n";
    char root[TEST_PATH];

    (void)state;
    test_folder(root);
    make_folders(root);
    assert_int_equal(cpus_of(root, membership), 0);
    test_write(test_path(root, "cpu,cpuacct/a/cpu.cfs_quota_us"), "-1\n");
    test_write(test_path(root, "cpu,cpuacct/a/cpu.cfs_period_us"), "100000\n");
    assert_int_equal(cpus_of(root, membership), 0);
    test_write(test_path(root, "cpu,cpuacct/a/cpu.cfs_quota_us"), "250000\n");
    assert_int_equal(cpus_of(root, membership), 3);
    test_folder_remove(root);
}

static void nonsense_in_cgroup_files_is_no_limit(void **state)
{
    const char *quotas[] = {
        "", "none", "-5 100000", "0 0", "5", "100 -1", "9223372036854775807 1"};
    char root[TEST_PATH];

    (void)state;
    test_folder(root);
    for (size_t i = 0; i < sizeof quotas / sizeof quotas[0]; i++) {
        test_write(test_path(root, "cpu.max"), quotas[i]);
        assert_int_equal(cpus_of(root, "0::/\n"), 0);
    }
    test_write(test_path(root, "cpu.max"), "200000 100000");
    assert_int_equal(cpus_of(root, "\n:\n::\nx:y\n"), 2); /* "::" is group "" of v2 */
    assert_int_equal(fb_cpus_of_cgroup(test_path(root, "none"), root), 0);
    test_folder_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_visited_once_by_any_number_of_threads),
        cmocka_unit_test(ranges_get_smaller_towards_the_end),
        cmocka_unit_test(short_loops_in_a_row_lose_nothing),
        cmocka_unit_test(a_pool_can_be_made_and_freed_without_a_loop),
        cmocka_unit_test(impossible_numbers_of_threads_are_refused),
        cmocka_unit_test(threads_that_cannot_be_made_leave_their_work_to_the_others),
        cmocka_unit_test(affinity_limits_the_threads),
        cmocka_unit_test(a_quota_of_any_group_above_counts),
        cmocka_unit_test(version_1_of_cgroups_is_understood),
        cmocka_unit_test(nonsense_in_cgroup_files_is_no_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
