#!/usr/bin/env python3
"""run_page.py - the report page in a real browser, opened from disk.

    run_page.py [--keep FOLDER]

make_pages writes the pages; headless Chromium opens them under their content policy.
With --keep the pages and their pictures (light, dark, narrow, without script, on
paper) stay in FOLDER, to be looked at. Without a browser everything is skipped.

SPDX-License-Identifier: MIT
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium

PAGES = ("measured", "two", "smallest", "small", "most", "holes", "names", "hostile", "tasks")
READY = "document.documentElement.dataset.ready === '1'"
MOST_BYTES = 3_000_000
CHARTS = """[...document.querySelectorAll('.chart')].map(host => {
    const svg = host.querySelector('svg');
    return {
        chart: host.dataset.chart, box: host.clientWidth,
        width: svg ? Number(svg.getAttribute('width')) : 0,
        marks: svg ? svg.querySelectorAll('.mark-symbol path, .mark-line path').length : 0,
        label: svg ? svg.getAttribute('aria-label') : null,
        words: host.textContent };
})"""


def check(condition, sentence):
    if not condition:
        raise AssertionError(sentence)


class Pages:
    def __init__(self, folder, browser):
        self.folder = folder
        self.browser = browser
        self.kept = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def open(self, name, ready=READY, **options):
        tab = self.browser.tab(**options)
        tab.open(self.path(name + ".html"), ready)
        return tab

    def measured(self):
        """One tab for all tests that leave the page as it was."""
        self.kept = self.kept or self.open("measured")
        return self.kept


def check_whole_names(tab, name):
    cut = tab.value("""[...document.querySelectorAll('.chart text')].map(t => t.textContent)
        .filter(words => /\\.\\.\\.$|\u2026$/.test(words))""")
    check(cut == [], f"{name}: cut: {cut}")


def check_quiet(tab, name):
    check(tab.said() == [], f"{name}: the console says {tab.said()[:3]}")
    asked = [url for url in tab.requests() if not url.endswith(f"/{name}.html")]
    check(asked == [], f"{name}: the page asks for {asked[:3]}")


def check_charts(tab, name):
    charts = tab.value(CHARTS)
    for c in charts:
        if c["marks"] == 0:
            check("No numbers" in c["words"], f"{name}: an empty {c['chart']} chart")
            continue
        check(c["width"] <= c["box"], f"{name}: {c['chart']} chart is {c['width']} wide, "
              f"its box {c['box']}")
        check(c["label"], f"{name}: {c['chart']} chart has no label")
    return charts


def every_page_is_quiet_and_drawn_at_every_width(pages):
    for name in PAGES:
        tab = pages.open(name)
        check(check_charts(tab, name) or name == "smallest", f"{name}: no charts")
        tab.size(420, 900)
        tab.value("new Promise(done => setTimeout(done, 200))")
        tab.until(READY)
        check_charts(tab, name)
        width = tab.value("document.documentElement.scrollWidth")
        check(width == 420, f"{name}: {width} px wide in a window of 420")
        check_quiet(tab, name)
        tab.close()


def names_of_rules_stay_whole_on_a_phone(pages):
    tab = pages.open("measured", width=380)
    check_whole_names(tab, "measured")
    check(tab.value("document.documentElement.scrollWidth") == 380, "wider than the phone")
    check("observed_attention" in tab.value("document.querySelector('[data-chart=order]').textContent"), "order")
    tab.close()


def names_of_tasks_stay_whole_on_a_phone(pages):
    tab = pages.open("tasks", width=420)
    check("recall:filler=inert" in tab.value("document.querySelector('[data-chart=order]').textContent"), "order")
    check_whole_names(tab, "tasks")
    tab.close()


def pages_stay_small(pages):
    for name in PAGES:
        size = os.path.getsize(pages.path(name + ".html"))
        check(size < MOST_BYTES, f"{name}: {size} bytes")


def near(shown, value):
    return (shown == "") if value is None else abs(float(shown) - value) <= 1e-12 * max(1, abs(value))


def tables_hold_the_numbers_of_compare(pages):
    with open(pages.path("measured.json"), encoding="utf-8") as file:
        analysis = json.load(file)
    tab = pages.measured()
    rows = tab.value("""['means', 'differences'].map(name =>
        [...document.querySelectorAll('.t-' + name)].flatMap((table, task) =>
            [...table.tBodies].flatMap((body, budget) => [...body.rows].map(row =>
                [task, budget, ...[...row.cells].map(c => c.dataset.v ?? c.textContent)]))))""")
    budgets = list(dict.fromkeys(t["budget"] for t in analysis["tables"]))
    tasks = list(dict.fromkeys(t["task"] for t in analysis["tables"]))
    n = 0
    for table in analysis["tables"]:
        for row in table["rows"]:
            place = [tasks.index(table["task"]), budgets.index(table["budget"]), row["rule"],
                     "100\u00a0%" if row["rule"] == "full" else table["budget"].replace("%", "\u00a0%")]
            mean = [r for r in rows[0] if r[:4] == place]
            check(len(mean) == 1, f"{place} is {len(mean)} times among the means")
            low, high = mean[0][5].split(" to ")
            check(near(mean[0][4], row["mean"]) and near(low, row["low"]) and near(high, row["high"]),
                  f"{place}: {mean[0]} is not {row}")
            n += 1
            if row["rule"] == analysis["baseline"]:
                continue
            difference = [r for r in rows[1] if r[:4] == place][0]
            check(near(difference[4], row["difference"]), f"{place}: {difference}")
            if row["verdict"] != "reference":
                check(near(difference[7], row["p_holm"]), f"{place}: p {difference[7]}")
            check(difference[9] == row["group"], f"{place}: group {difference[9]}")
    check(n == 36, f"{n} rows compared")


def sentence_figure_and_chart_agree(pages):
    tab = pages.measured()
    words = tab.value("document.querySelector('#e1-answer').innerText.replaceAll('\\u00a0', ' ')")
    forest = tab.value("document.querySelector('[data-chart=forest] svg').textContent")
    order = tab.value("document.querySelector('[data-chart=order] svg').textContent")
    check("No rule wins both" in words, words)
    check("KL −1.68 nat, −1.96 to −1.38, p < 0.001" in words, words)
    check("16 × 504 tokens" in words and "Measured on" not in words, words)
    check(words.count("at 20 % of the cache") == 2, words)  # the sentence, the paragraph
    check("6 of 16 answers right" in words and "4.4 MiB of 22.2 MiB" in words, words)
    check("−1.68" in forest and "keydiff" in forest, forest)
    check("0.64" in order and "0.076" in order, order)


def class_and_signature_are_explained(pages):
    tab = pages.measured()
    title = tab.value("""[...document.querySelectorAll('.badges li')]
        .find(li => li.innerText.startsWith('class')).title""")
    notes = tab.value("document.querySelector('#e1-all').textContent").replace("\u00a0", " ")
    letters = tab.value("document.querySelector('#e1-differences').textContent")
    for words, part in ((title, "cap5: at most 5 % of the operations"), (notes, "cap5: at most 5 % of the operations"),
                        (notes, "what does not hold is named"), (notes, "c compute quota"),
                        (letters, "may beat the baseline and still share a letter with it")):
        check(part in words, f"'{part}' is not in '{words[:2000]}'")


def a_chosen_budget_changes_page_charts_and_address(pages):
    tab = pages.open("measured")
    shown = """[...document.querySelectorAll('.t-samples .s')].slice(0, 1).map(r => r.innerText)
        + document.querySelector('[data-chart=forest] svg').textContent"""
    before = tab.value(shown)
    headline = tab.value("document.querySelector('h1').textContent")
    tab.value("document.querySelector('.seg input[value=\"0\"]').click()")
    tab.until(READY)
    check(tab.value(shown) != before, "nothing changed")
    check(tab.value("location.hash") == "#b1=0", tab.value("location.hash"))
    check(tab.value("document.querySelector('h1').textContent") == headline, "the sentence changed")
    after = tab.value(shown)
    tab.close()
    tab = pages.browser.tab()
    tab.open(pages.path("measured.html") + "#b1=0", READY)
    check(tab.value(shown) == after, "the address does not bring the choice back")
    check_quiet(tab, "measured.html#b1=0".removesuffix(".html#b1=0"))
    tab.close()


def rules_can_be_switched_off(pages):
    tab = pages.open("measured")
    words = "document.querySelector('[data-chart=quality] svg').textContent"
    check("keydiff" in tab.value(words), "keydiff is not in the chart")
    tab.value("[...document.querySelectorAll('.chips button')].find(b => b.innerText === 'keydiff').click()")
    tab.until(READY)
    check("keydiff" not in tab.value(words), "keydiff is still in the chart")
    check(tab.value("document.querySelectorAll('.chips [aria-pressed=false]').length") == 1, "chip")
    check_quiet(tab, "measured")
    tab.close()


def samples_are_found_by_who_is_right(pages):
    tab = pages.open("measured")
    count = "[...document.querySelectorAll('.t-samples > tbody')].filter(b => !b.hidden).length"
    check(tab.value(count) == 32, "not all samples are shown")
    for choice, value, left in (("right", "keydiff", 6), ("wrong", "oracle", 0), ("wrong", "any", 6)):
        tab.value(f"""(() => {{
            const select = document.querySelector('[data-filter={choice}]');
            select.value = [...select.options].find(o => o.text === '{value}').value;
            select.dispatchEvent(new Event('change'));
        }})()""")
        check(tab.value(count) == left, f"{choice} {value}: {tab.value(count)} samples")
    check_quiet(tab, "measured")
    tab.close()


def a_mark_under_the_pointer_tells_its_numbers(pages):
    tab = pages.measured()
    at = tab.value("""(() => {
        const mark = document.querySelector('[data-chart=forest] .mark-symbol path');
        mark.scrollIntoView({block: 'center'});
        const box = mark.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
    })()""")
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=at[0], y=at[1])
    tab.until("document.getElementById('tip').style.display === 'block'")
    words = tab.value("document.getElementById('tip').textContent")
    check("keydiff − random" in words and "−1.96 to −1.38" in words, words)


def copied_tables_have_all_digits(pages):
    tab = pages.open("measured")
    tab.value("navigator.clipboard.writeText = async text => { window.copied = text }")
    tab.value("document.querySelector('[data-table=e1-t-means-0]').click()")
    lines = tab.value("copied").split("\r\n")
    check(lines[0].startswith("rule,kept,KL,interval"), lines[0])
    keydiff = [line for line in lines if line.startswith("keydiff,20")][0].split(",")
    check(len(keydiff[2]) > 6 and abs(float(keydiff[2]) - 0.6353) < 0.01, keydiff)
    check("'" not in tab.value("copied"), "a number became a text")
    tab.value("document.querySelector('[data-table=e1-t-bytes-0]').click()")
    check(re.search(r"^keydiff,20.%,4\d{6}(\.\d+)?,", tab.value("copied"), re.M), tab.value("copied"))
    tab.value("""document.querySelector('#e1-t-means-0 tbody th').textContent = '=1+"1"'""")
    tab.value("document.querySelector('[data-table=e1-t-means-0]').click()")
    check(tab.value("copied").split("\r\n")[1].startswith("\"'=1+\"\"1\"\"\","), tab.value("copied"))
    tab.value("document.querySelector('[data-table=e1-t-samples-0]').click()")
    check(len(tab.value("copied").split("\r\n")) == 17, tab.value("copied"))
    tab.close()


def without_a_script_everything_can_be_read(pages):
    tab = pages.open("measured", ready=None, script=False)
    words = tab.value("document.body.innerText")
    for part in ("No rule wins both", "Which differences are real?", "not distinguishable",
                 "observed_attention", "Samples", "6238537", "fb1|m:b179c9",
                 "Model SmolLM2-135M-Instruct.Q4_1 (Smollm2 135M 8k Lc100K Mix1 Ep2): llama, 30 layers"):
        check(part in words, f"'{part}' cannot be read")
    visible = tab.value("""[...document.querySelectorAll('.chart, .bar, .chips, .copy, .chart-part')]
        .filter(e => e.checkVisibility()).length""")
    check(visible == 0, f"{visible} parts for the script are visible")
    check(tab.value("document.querySelector('.t-means').checkVisibility()"), "the numbers are closed")
    tab.close()


def hostile_words_stay_text_and_no_script_gets_in(pages):
    tab = pages.open("hostile")
    tab.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    check(tab.value("document.querySelectorAll('img, iframe, object').length") == 0, "markup got in")
    check(tab.value("document.scripts.length") == 3, "a script got in")
    check("</script><img src=x onerror=alert(1)>" in tab.value("document.body.innerText"), "words")
    check_quiet(tab, "hostile")
    tab.value("""(() => {
        const script = document.createElement('script');
        script.textContent = 'window.got_in = true';
        document.body.append(script);
    })()""")
    check(tab.value("window.got_in") is None, "the policy lets a script run")
    check(any("Content Security Policy" in line for line in tab.said()), "the policy is silent")
    tab.close()


def dark_mode_and_paper_need_no_redraw(pages):
    tab = pages.measured()
    ground = "getComputedStyle(document.body).backgroundColor"
    color = "getComputedStyle(document.querySelector('[data-chart=forest] .mark-symbol path')).stroke"
    light, mark = tab.value(ground), tab.value(color)
    tab.media(dark=True)
    check(tab.value(ground) != light and tab.value(color) != mark, "dark is light")
    tab.media(dark=False)
    paper = tab.paper()
    check(paper.startswith(b"%PDF") and paper.count(b"/Type /Page\n") >= 4, "paper")


def the_keys_j_and_k_walk_through_samples(pages):
    tab = pages.measured()
    for key, place in (("j", 0), ("j", 1), ("k", 0)):
        tab.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        at = tab.value("""[...document.querySelectorAll('.drill > details > summary')]
            .indexOf(document.activeElement)""")
        check(at == place, f"{key} goes to {at}")


TESTS = [
    every_page_is_quiet_and_drawn_at_every_width, names_of_rules_stay_whole_on_a_phone,
    names_of_tasks_stay_whole_on_a_phone, pages_stay_small,
    tables_hold_the_numbers_of_compare, sentence_figure_and_chart_agree,
    class_and_signature_are_explained,
    a_chosen_budget_changes_page_charts_and_address, rules_can_be_switched_off,
    samples_are_found_by_who_is_right,
    a_mark_under_the_pointer_tells_its_numbers, copied_tables_have_all_digits,
    without_a_script_everything_can_be_read, hostile_words_stay_text_and_no_script_gets_in,
    dark_mode_and_paper_need_no_redraw, the_keys_j_and_k_walk_through_samples,
]


def keep_pictures(pages):
    for name in PAGES:
        for kind, options in (("light", {}), ("dark", {"dark": True}), ("narrow", {"width": 420}),
                              ("noscript", {"script": False})):
            tab = pages.open(name, ready=None if kind == "noscript" else READY, **options)
            tab.picture(pages.path(f"{name}_{kind}.png"))
            if kind == "light":
                tab.paper(pages.path(f"{name}.pdf"))
            tab.close()


def run(pages):
    failed = 0
    for test in TESTS:
        try:
            test(pages)
            print(f"ok      {test.__name__}", flush=True)
        except Exception:  # the next test has its own page
            failed += 1
            print(f"FAILED  {test.__name__}")
            traceback.print_exc(file=sys.stdout)
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", metavar="FOLDER")
    keep = parser.parse_args().keep
    program = chromium.find()
    if program is None:
        for test in TESTS:
            print(f"skip: {test.__name__}: no Chromium on this machine")
        print("0 passed, 0 failed")
        return 0
    build = os.environ.get("FLEXBUDGET_BUILD", "build/release")
    with tempfile.TemporaryDirectory() as folder:
        folder = keep or folder
        os.makedirs(folder, exist_ok=True)
        made = subprocess.run([os.path.join(build, "tests/page/make_pages"), folder],
                              capture_output=True, text=True, check=False)
        if made.returncode != 0:
            print(made.stdout + made.stderr + f"0 passed, {len(TESTS)} failed")
            return 1
        browser = chromium.Browser(program)
        try:
            pages = Pages(folder, browser)
            failed = run(pages)
            if keep:
                keep_pictures(pages)
        finally:
            browser.close()
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
