/* random_model.c - writes a model that says any bytes, for tests of the command line.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/random_llama.h"

int main(int argc, char **argv)
{
    make_check(argc == 2);
    random_llama(argv[1], RANDOM_NO_END);
    return 0;
}
