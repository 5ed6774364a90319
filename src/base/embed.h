/* embed.h - files of the source tree inside the program.
 *
 * FB_EMBED(page_css, "src/report/page.css") defines the bytes page_css[] up to
 * page_css_end with a zero byte behind them. The path is relative to the top of the
 * source tree.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_EMBED_H
#define FB_BASE_EMBED_H

#define FB_EMBED(name, path)                                                           \
    __asm__(".pushsection .rodata, \"a\"\n"                                            \
            ".balign 64\n"                                                             \
            ".local " #name "\n" #name ":\n"                                           \
            ".incbin \"" path "\"\n"                                                   \
            ".local " #name "_end\n" #name "_end:\n"                                   \
            ".byte 0\n"                                                                \
            ".popsection\n");                                                          \
    extern const unsigned char name[] __attribute__((visibility("hidden")));           \
    extern const unsigned char name##_end[] __attribute__((visibility("hidden")))

#endif
