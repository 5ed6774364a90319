// page.js - draws the charts and shows the chosen budget; everything else is in the page.
//
// A chart is a Vega-Lite file with named data and parameters (charts/*.vl.json); a
// function here per chart turns the numbers of the analysis into those data. Words of
// users reach the page as text only: textContent, SVG text.
//
// SPDX-License-Identifier: MIT
(() => {
  "use strict";
  const { View, Warn, compile, expressionInterpreter, parse } = vegaParts;
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const page = JSON.parse(document.getElementById("data").textContent);
  const color = (rule) => `var(--${rule.color})`;

  // --- numbers as the tables write them
  const fixed = (x, digits) => x.toFixed(digits).replace(/^-(?=0\.?0*$)/, "").replace("-", "−");
  const signed = (x, digits) => (/[1-9]/.test(x.toFixed(digits)) && x > 0 ? "+" : "") + fixed(x, digits);
  const pText = (p) => (p < 0.001 ? "<0.001" : p.toFixed(p < 0.0995 ? 3 : 2));
  const interval = (low, high, write) => (low === null ? "" : `${write(low)} to ${write(high)}`);
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const budgetText = (asked) => asked.replace(/^([\d.]+) ?(?=.)/, "$1\u00a0");

  const brush = document.createElement("canvas").getContext("2d");
  function textWidth(text, size) {
    brush.font = `${size}px ${page.config.font}`;
    return Math.ceil(brush.measureText(text).width);
  }
  const NARROW = 460; // below, charts take smaller type and leave letters out
  const widest = (texts, size) => Math.max(0, ...texts.map((text) => textWidth(text, size)));

  // --- drawing
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  document.body.append(tip);

  function showTip(handler, event, item, value) {
    const shows = event && value !== null && value !== undefined;
    tip.style.display = shows ? "block" : "none";
    if (!shows) return; // the mark was left, or its chart is gone
    tip.textContent = value;
    tip.style.left = `${Math.max(4, Math.min(innerWidth - tip.offsetWidth - 8, event.clientX + 12))}px`;
    tip.style.top = `${event.clientY + 14}px`;
  }

  const views = new Map(); // place of a chart -> its view
  async function draw(host, { chart, title, params, datasets, ...size }) {
    const base = page.charts[chart];
    const spec = {
      ...base,
      ...size,
      config: page.config,
      datasets,
      params: base.params.map((p) => ({ ...p, value: params[p.name] ?? p.value })),
    };
    views.get(host)?.finalize();
    const view = new View(parse(compile(spec).spec, null, { ast: true }), {
      container: host,
      expr: expressionInterpreter,
      hover: true,
      logLevel: Warn,
      renderer: "svg",
      tooltip: showTip,
    });
    views.set(host, view);
    await view.runAsync();
    const svg = host.querySelector("svg");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${title}; the numbers are in the table below`);
  }

  // --- one experiment
  class Experiment {
    constructor(root, data) {
      Object.assign(this, data);
      this.root = root;
      this.hidden = new Set(); // rules switched off by the chips
    }

    table(task, budget) {
      return this.tables.find((t) => t.task === task && t.budget === budget);
    }

    shown(row) {
      return !this.hidden.has(row.rule);
    }

    // Rows of the rules that can be deployed, best first.
    compared(table) {
      return table.rows.filter((row) => row.ranked && this.rules[row.rule].compared && this.shown(row));
    }

    about(task, budget, row) {
      const { label, expression } = this.rules[row.rule];
      const { words, unit, name } = this.tasks[task];
      const { digits } = this.table(task, budget);
      const lines = [label, expression === label ? null : expression];
      lines.push(`${name}, ${budgetText(this.budgets[budget])} kept, ${plural(row.n, "document")}`);
      lines.push(`${words} ${fixed(row.mean, digits)} ${unit ?? ""}`);
      if (row.low !== null) lines.push(`${fixed(100 * this.confidence, 0)} % interval ${interval(row.low, row.high, (x) => fixed(x, digits))}`);
      return lines.filter((line) => line !== null).join("\n");
    }
  }

  // Moves labels apart so that neighbours keep `gap`, inside low..high if they fit.
  function spread(labels, gap, low, high) {
    labels.sort((a, b) => a.at - b.at);
    for (const [i, label] of labels.entries())
      label.at = Math.max(label.at, i ? labels[i - 1].at + gap : low);
    let over = labels.length ? labels.at(-1).at - high : 0;
    for (let i = labels.length - 1; i >= 0 && over > 0; i--) {
      labels[i].at -= over;
      over = i ? labels[i - 1].at - (labels[i].at - gap) : 0;
    }
  }

  function quality(host, x, task) {
    const { lower, name, words, metric } = x.tasks[task];
    const tables = x.tables
      .filter((t) => t.task === task && t.share !== null)
      .sort((a, b) => b.share - a.share);
    const points = tables.flatMap((t) =>
      t.rows
        .filter((row) => !x.rules[row.rule].full && !row.apart && x.shown(row) && row.mean !== null)
        .map((row) => {
          const rule = x.rules[row.rule];
          return {
            rule: rule.label, id: row.rule, share: t.share, y: row.mean, low: row.low, high: row.high,
            color: color(rule), shape: rule.shape, dash: rule.dash.split(" ").map(Number),
            about: x.about(task, t.budget, row),
          };
        }));
    const fullRow = tables.flatMap((t) => t.rows).find((row) => x.rules[row.rule].full);
    const full = fullRow?.mean ?? null;
    const all = points.flatMap((p) => [p.y, p.low, p.high]).concat(full).filter((y) => y !== null && y !== undefined);
    if (!all.length) return empty(host);

    let [low, high] = [Math.min(...all), Math.max(...all)];
    if (metric === "kl") low = Math.min(0, low);
    const room = (high - low || Math.abs(high) || 1) * 0.02;
    if (lower) high += room;
    else low -= room;
    if (!lower && full !== high) high += room;
    const height = Math.max(300, 15 * (new Set(points.map((p) => p.id)).size + 1));
    const toPixel = (y) => ((lower ? y - low : high - y) / (high - low)) * height;
    const fromPixel = (at) => (lower ? low + (at / height) * (high - low) : high - (at / height) * (high - low));

    const ends = new Map(points.map((p) => [p.id, p])); // the last point wins: the smallest share
    const firsts = new Map(points.toReversed().map((p) => [p.id, p]));
    const least = Math.min(...tables.map((t) => t.share), 90);
    const labels = [...ends.values()].map((p) => ({ rule: p.rule, text: p.rule, color: p.color, at: toPixel(p.y), share: least }));
    if (full !== null) labels.push({ rule: "full", text: "full", color: "var(--ref)", at: toPixel(full) - 7, share: least });
    spread(labels, 14.5, -5, height + 6);
    for (const label of labels) label.y = fromPixel(label.at);
    const starts = full === null ? [] : [...firsts.values()].flatMap((p) => [{ ...p, share: 100, y: full }, p]);

    const side = Math.min(widest(labels.map((l) => l.text), 12) + 24, host.clientWidth * 0.45);
    const width = Math.max(80, host.clientWidth - side - 10 - widest([fixed(low, 2), fixed(high, 2)], 12));
    return draw(host, {
      chart: "quality",
      title: `${name}: ${words} against the share of the cache kept`,
      width,
      height,
      params: {
        reverse: lower, share_low: least, y_low: low, y_high: high, label_limit: side - 20,
        share_title: `share ${width < 240 ? "" : "of the cache "}kept (less memory →)`,
        share_ticks: [100, ...new Set(tables.map((t) => t.share))],
      },
      datasets: { points, starts, labels, full: full === null ? [] : [{ y: full }] },
    });
  }

  function forest(host, x, task, budget) {
    const table = x.table(task, budget);
    const base = table?.rows[table.baseline];
    if (!base) return empty(host);
    const { lower, unit, name } = x.tasks[task];
    const { digits, margin } = table;
    const order = x.tables.filter((t) => t.budget === budget).flatMap((t) => t.rows.map((row) => row.rule));
    const compared = x.compared(table).filter((row) => row !== base && row.difference !== null);
    compared.sort((a, b) => order.indexOf(a.rule) - order.indexOf(b.rule));
    const rows = compared.map((row, i) => {
      const rule = x.rules[row.rule];
      const range = interval(row.difference_low, row.difference_high, (y) => signed(y, digits));
      return {
        rule: rule.label, place: i + 1, difference: row.difference, low: row.difference_low, high: row.difference_high,
        real: row.real, color: color(rule),
        value: signed(row.difference, digits), p: row.p === null ? "" : pText(row.p), group: row.group,
        about: `${rule.label} − ${x.rules[base.rule].label}\n${signed(row.difference, digits)} ${unit ?? ""} (${range})` +
          (row.p === null ? "\nnot tested" : `\np ${row.p < 0.001 ? "" : "= "}${pText(row.p)} (Holm)`),
      };
    });
    rows.push({
      rule: x.rules[base.rule].label, place: rows.length + 1, difference: 0, low: null, high: null, real: false,
      color: color(x.rules[base.rule]), value: "baseline", p: "", group: base.group, about: "the baseline",
    });

    const ends = rows.flatMap((row) => [row.difference, row.low ?? 0, row.high ?? 0]);
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const room = (high - low) * 0.05 || margin * 2 || 1;
    const size = host.clientWidth < NARROW ? 11.5 : 13;
    const label = Math.min(widest(rows.map((row) => row.rule), size) + 14, host.clientWidth * 0.4);
    const first = 12;
    const second = first + Math.max(42, widest(rows.filter((r) => r.p).map((row) => row.value), 12)) + 10;
    const third = second + 54;
    const right = third + Math.max(28, widest(rows.map((row) => row.group), 12)) + 4;
    const [worse, better] = lower ? ["worse →", "← better"] : ["← worse", "better →"];
    const nat = unit ? `, ${unit}` : "";
    return draw(host, {
      chart: "forest",
      title: `${name}: differences from ${x.rules[base.rule].label} with intervals`,
      width: Math.max(60, host.clientWidth - label - right),
      height: rows.length * 30 + 6,
      params: {
        n: rows.length, x_low: low - room, x_high: high + room, columns: [first, second, third], label_limit: label - 10,
        font_size: size,
        title: lower ? `${better}\u2003difference${nat}\u2003${worse}` : `${worse}\u2003difference${nat}\u2003${better}`,
      },
      datasets: {
        rows,
        band: [{ low: -margin, high: margin }],
        heads: ["diff.", "p", "group"].map((text, column) => ({ column, text })),
      },
    });
  }

  function order(host, x, _, budget) {
    const tasks = x.tasks.map((task, i) => i).filter((task) => x.table(task, budget));
    const width = Math.min(host.clientWidth, 520 + 130 * tasks.length);
    const narrow = width < NARROW;
    const size = narrow ? 11.5 : 13;
    const rows = tasks.flatMap((task, i) =>
      x.compared(x.table(task, budget)).map((row, place) => {
        const rule = x.rules[row.rule];
        const value = fixed(row.mean, x.table(task, budget).digits);
        return {
          rule: rule.label, task: i, place: place + 1, value,
          group: row.group, color: color(rule), shape: rule.shape, dash: rule.dash.split(" ").map(Number),
          about: x.about(task, budget, row) + (row.group ? `\ngroup ${row.group}` : ""),
        };
      }));
    if (tasks.length < 2 || !rows.length) return empty(host);
    const groups = !narrow && rows.some((row) => row.group);
    const outside = groups ? widest(rows.map((row) => row.group), 12) + 24 : 0;
    const room = narrow ? (width - 60) / 2 : width * 0.41;
    const whole = widest(rows.map((row) => `${row.rule}\u2002${row.value}`), size) + 14 + outside;
    for (const row of rows) { // where both do not fit, the name stays whole
      const value = whole > room ? [] : [row.value];
      row.left = [row.rule, ...value].join("\u2002");
      row.right = [...value, row.rule].join("\u2002");
    }
    const names = widest(tasks.map((task) => x.tasks[task].name), 13.5) + 20; // in bold
    const side = Math.min(Math.max(widest(rows.map((row) => row.left), size) + 14 + outside, names), room);
    const n = Math.max(...rows.map((row) => row.place));
    return draw(host, {
      chart: "order",
      title: `Order of the rules on ${x.tasks.map((task) => task.name).join(", ")}`,
      width: Math.max(60, width - 2 * side),
      height: n * 25,
      params: { n, last: tasks.length - 1, side, label_limit: side - outside - 12, groups, font_size: size },
      datasets: { rows, heads: tasks.map((task, i) => ({ task: i, text: x.tasks[task].name })) },
    });
  }

  function empty(host) {
    views.get(host)?.finalize();
    views.delete(host);
    const text = document.createElement("p");
    text.className = "cap";
    text.textContent = "No numbers for this choice.";
    host.replaceChildren(text);
  }

  const charts = { order, quality, forest };
  async function redraw(x) {
    for (const host of $$(".chart", x.root))
      await charts[host.dataset.chart](host, x, Number(host.dataset.task), x.budget);
  }

  // One redraw at a time; what is asked for meanwhile is done once, afterwards. The page
  // says when it is at rest, for those who take its picture.
  let drawing = Promise.resolve();
  const waiting = new Set();
  function update(x) {
    for (const part of $$("[data-budget]", x.root)) part.hidden = Number(part.dataset.budget) !== x.budget;
    filter(x);
    if (waiting.has(x)) return;
    waiting.add(x);
    document.documentElement.dataset.ready = "0";
    drawing = drawing
      .then(() => {
        waiting.delete(x);
        return redraw(x);
      })
      .catch(console.error)
      .then(() => {
        if (!waiting.size) document.documentElement.dataset.ready = "1";
      });
  }

  for (const part of $$("details.numbers")) part.open = false; // the charts show them

  // --- choices; they live in the address, as #b1=0&b2=1
  const experiments = $$("article").map((root, i) => new Experiment(root, page.experiments[i]));
  const address = new URLSearchParams(location.hash.slice(1));

  function remember(x) {
    address.set(`b${x.number}`, x.budget);
    history.replaceState(null, "", `#${address}`);
  }

  // Samples that one rule gets right and another wrong, at the chosen budget.
  function filter(x) {
    const [right, wrong] = $$("[data-filter]", x.root).map((select) => select.value);
    if (right === undefined) return;
    const is = (sample, rule) => sample.querySelector(`[data-rule="${rule}"] .ok:not([hidden])`) !== null;
    const samples = $$(".t-samples > tbody", x.root);
    for (const sample of samples)
      sample.hidden = (right !== "" && !is(sample, right)) || (wrong !== "" && is(sample, wrong));
    const left = samples.filter((sample) => !sample.hidden).length;
    x.root.querySelector(".filter small").textContent = `${left} of ${plural(samples.length, "sample")}`;
  }

  for (const x of experiments) {
    for (const select of $$("[data-filter]", x.root)) select.addEventListener("change", () => filter(x));
    const asked = address.get(`b${x.number}`);
    if (asked !== null && x.budgets[asked] !== undefined) x.budget = Number(asked);
    for (const radio of $$(".seg input", x.root)) {
      radio.checked = Number(radio.value) === x.budget;
      radio.addEventListener("change", () => {
        x.budget = Number(radio.value);
        remember(x);
        update(x);
      });
    }
    for (const chip of $$(".chips button", x.root))
      chip.addEventListener("click", () => {
        const rule = Number(chip.dataset.rule);
        if (!x.hidden.delete(rule)) x.hidden.add(rule);
        chip.setAttribute("aria-pressed", String(!x.hidden.has(rule)));
        update(x);
      });
  }

  // --- copying: cells with a stored value give that, with all its digits
  function cellText(cell) {
    const copy = cell.cloneNode(true);
    for (const part of $$("[hidden], svg", copy)) part.remove();
    const whole = cell.dataset.v ?? copy.querySelector("[data-v]")?.dataset.v;
    return whole ?? copy.textContent.trim();
  }

  // A text that a spreadsheet would take for a formula gets an apostrophe; numbers and
  // "low to high" stay as they are.
  const number = String.raw`[+-]?[\d.]+(e[+-]?\d+)?`;
  const harmless = new RegExp(`^(?![=+@-])|^${number}( to ${number})?$`);
  const csvText = (s) => (harmless.test(s) ? s : `'${s}`);
  const csvField = (s) => (/[",\r\n]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s);
  const forms = {
    csv: (rows) => rows.map((row) => row.map((s) => csvField(csvText(s))).join(",")).join("\r\n"),
    markdown: (rows) =>
      rows.map((row) => `| ${row.map((s) => s.replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`)
        .toSpliced(1, 0, `|${" --- |".repeat(rows[0].length)}`).join("\n"),
  };

  for (const button of $$("button[data-copy]"))
    button.addEventListener("click", async () => {
      const rows = [...document.getElementById(button.dataset.table).rows]
        .filter((row) => !row.classList.contains("d") && !row.closest(".drill"))
        .map((row) => [...row.cells].filter((cell) => !cell.classList.contains("gap")).map(cellText));
      const said = button.textContent;
      button.textContent = (await copy(forms[button.dataset.copy](rows))) ? "Copied" : "Copying is not allowed here";
      setTimeout(() => { button.textContent = said; }, 1200);
    });

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch { // a page from disk may not be a secure context
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  // --- keys, paper, size
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !["j", "k"].includes(event.key)) return;
    if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) && event.target.type !== "radio") return;
    const lines = $$(".drill > details > summary");
    const at = lines.indexOf(document.activeElement);
    lines[Math.max(0, Math.min(lines.length - 1, at + (event.key === "j" ? 1 : -1)))]?.focus();
  });
  addEventListener("beforeprint", () => {
    for (const part of $$("details")) if (!part.closest(".drill")) part.open = true;
  });
  let width = innerWidth;
  let timer;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(() => experiments.forEach(update), 150);
  });

  experiments.forEach(update);
})();
