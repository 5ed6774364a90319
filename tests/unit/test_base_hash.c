/* test_base_hash.c - SHA-256 against the examples of NIST and itself in pieces.
 *
 * Source of the digests: NIST, "Secure Hash Algorithm validation system", and the
 * examples that came with FIPS 180-2, appendix B.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/hash.h"
#include "base/memory.h"
#include "tests/support/test.h"

static void the_examples_of_nist_come_out(void **state)
{
    static const struct {
        const char *text, *digest;
    } examples[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmn"
         "opq"
         "klmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        char hex[FB_HASH_HEX];

        fb_hash_bytes(examples[i].text, strlen(examples[i].text), hex);
        assert_string_equal(hex, examples[i].digest);
    }
}

static void a_million_letters_in_any_pieces_give_the_known_digest(void **state)
{
    const size_t pieces[] = {1, 7, 63, 64, 65, 997, 1000000};
    char *letters = fb_alloc(FB_ACCOUNT_other, 1000000);

    (void)state;
    assert_non_null(letters);
    memset(letters, 'a', 1000000);
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
        char hex[FB_HASH_HEX];
        fb_hash hash;

        fb_hash_init(&hash);
        for (size_t at = 0; at < 1000000; at += pieces[p]) {
            const size_t left = 1000000 - at;

            fb_hash_add(&hash, letters + at, left < pieces[p] ? left : pieces[p]);
        }
        fb_hash_hex(&hash, hex);
        assert_string_equal(
            hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
    fb_free(letters);
}

/* The last block holds at most 55 bytes beside the length; 56 to 64 need one more. */
static void every_length_around_a_block_agrees_with_byte_by_byte(void **state)
{
    char text[200];

    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 37);
    for (size_t n = 0; n <= sizeof text; n++) {
        char whole[FB_HASH_HEX], single[FB_HASH_HEX], shorter[FB_HASH_HEX];
        fb_hash hash;

        fb_hash_init(&hash);
        for (size_t i = 0; i < n; i++)
            fb_hash_add(&hash, text + i, 1);
        fb_hash_hex(&hash, single);
        fb_hash_bytes(text, n, whole);
        assert_string_equal(whole, single);
        if (n > 0) {
            fb_hash_bytes(text, n - 1, shorter);
            assert_string_not_equal(whole, shorter);
        }
    }
}

static void a_digest_can_be_asked_for_and_the_hash_goes_on(void **state)
{
    char early[FB_HASH_HEX], late[FB_HASH_HEX];
    fb_hash hash;

    (void)state;
    fb_hash_init(&hash);
    fb_hash_add(&hash, "a", 1);
    fb_hash_hex(&hash, early);
    fb_hash_add(&hash, "bc", 2);
    fb_hash_hex(&hash, late);
    assert_string_equal(
        late, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void a_file_has_the_digest_of_its_bytes(void **state)
{
    char folder[TEST_PATH], hex[FB_HASH_HEX];

    (void)state;
    test_folder(folder);
    test_write(test_path(folder, "abc"), "abc");
    assert_ok(fb_hash_file(test_path(folder, "abc"), hex));
    assert_string_equal(
        hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_fails(fb_hash_file(test_path(folder, "none"), hex), FB_NOT_FOUND,
                 "cannot open");
    assert_fails(fb_hash_file(folder, hex), FB_FORMAT, "a folder");
    test_folder_remove(folder);
}

static void a_checksum_sees_every_byte_and_the_length(void **state)
{
    unsigned char bytes[100];
    uint64_t whole;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7);
    whole = fb_checksum(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1;
        assert_true(fb_checksum(bytes, sizeof bytes) != whole);
        bytes[i] ^= 1;
        assert_true(fb_checksum(bytes, i) != whole);
    }
    assert_true(fb_checksum(bytes, sizeof bytes) == whole);
    memset(bytes, 0, sizeof bytes);
    assert_true(fb_checksum(bytes, 32) != fb_checksum(bytes, 64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checksum_sees_every_byte_and_the_length),
        cmocka_unit_test(the_examples_of_nist_come_out),
        cmocka_unit_test(a_million_letters_in_any_pieces_give_the_known_digest),
        cmocka_unit_test(every_length_around_a_block_agrees_with_byte_by_byte),
        cmocka_unit_test(a_digest_can_be_asked_for_and_the_hash_goes_on),
        cmocka_unit_test(a_file_has_the_digest_of_its_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
