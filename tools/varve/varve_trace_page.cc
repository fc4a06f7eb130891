// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The page of `varve trace`. It loads nothing: style, program and data are in
// it. A chart has a row of boxes for each depth, as wide as their time, below
// an axis; a click on a box makes it as wide as the page. A table has the
// numbers.

#include <algorithm>
#include <string>

#include "tools/varve/varve_trace.h"

namespace varve {

namespace {

constexpr char kHead[] = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Varve traces</title><style>
:root { --ink: #1f2328; --soft: #5b6470; --line: #d0d7de; --page: #fff;
  --fade: rgba(0, 0, 0, .3); }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --soft: #9aa5b1; --line: #3a434d; --page: #14181d;
    --fade: rgba(255, 255, 255, .35); }
}
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 1rem;
  max-width: 100rem; color: var(--ink); background: var(--page); }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0 0 .5rem; }
p { margin: .5rem 0; }
select, button { font: inherit; max-width: 100%; padding: .25rem .5rem; }
#legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; color: var(--soft);
  font-size: .85rem; }
.swatch { display: inline-block; width: .85em; height: .85em;
  border-radius: 2px; margin-right: .4em; vertical-align: -.05em; }
#axis { position: relative; height: 1.5rem; font-size: .78rem;
  color: var(--soft); font-variant-numeric: tabular-nums; }
#axis span { position: absolute; bottom: .1rem; transform: translateX(-50%);
  white-space: nowrap; }
#axis span:first-child { transform: none; }
#axis span.last { transform: translateX(-100%); }
#unit { text-align: right; font-size: .78rem; color: var(--soft); margin: 0; }
#chart { position: relative; border: 1px solid var(--line);
  overflow: hidden; }
.grid { position: absolute; top: 0; bottom: 0; width: 1px;
  background: var(--line); }
.box { position: absolute; height: 23px; overflow: hidden; cursor: pointer;
  white-space: nowrap; font: 12px/21px system-ui, sans-serif; color: #111;
  border: 1px solid var(--page); border-radius: 3px; padding: 0 4px; }
.box b { font-variant-numeric: tabular-nums; }
.box:hover, .box:focus { border-color: var(--ink); outline: 0; }
.other { border: 1px dashed #111; background-image:
  repeating-linear-gradient(135deg, rgba(255, 255, 255, .45) 0 4px,
                            transparent 4px 9px); }
#note { min-height: 1.5em; margin: .5rem 0; overflow-wrap: anywhere; }
/* A shadow where more is to be seen. */
.wide { overflow-x: auto; max-width: 100%;
  background:
    linear-gradient(90deg, var(--page) 40%, transparent) 0 0 / 2rem 100%,
    linear-gradient(270deg, var(--page) 40%, transparent) 100% 0 / 2rem 100%,
    linear-gradient(90deg, var(--fade), transparent) 0 0 / .8rem 100%,
    linear-gradient(270deg, var(--fade), transparent) 100% 0 / .8rem 100%;
  background-attachment: local, local, scroll, scroll;
  background-repeat: no-repeat; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums;
  font-size: .9rem; }
th, td { padding: .2rem 0 .2rem 1rem; border-bottom: 1px solid var(--line);
  text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td.text { text-align: left; }
</style></head><body>
<h1>Varve traces</h1>
<p id="summary"></p>
<p><select id="which" aria-label="trace"></select>
<button id="all">whole trace</button></p>
<div id="legend"></div>
<div id="axis"></div><div id="chart"></div><p id="unit"></p>
<div id="note"></div>
<div class="wide" tabindex="0" role="region" aria-label="all spans">
<table><thead id="head"></thead><tbody id="rows"></tbody></table></div>
<noscript><p>This page draws with a script that is part of it. varve trace
prints the same figures as text.</p></noscript>
<script id="data" type="application/json">)page";

constexpr char kTail[] = R"page(</script><script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];
const MAX_ROWS = 500;
const unitOf = ns => UNITS.find(([size]) => ns >= size) || UNITS[3];
function time(ns) {
  const [size, unit] = unitOf(ns);
  const value = ns / size;
  const text = size === 1 || value >= 999.5 ? value.toFixed(0)
                                            : value.toPrecision(3);
  return `${text} ${unit}`;
}
// Colours that people with any kind of colour vision can tell apart.
const KINDS = [
  ["sync", "#e8743b", /sync/],
  ["append", "#56b4e9", /append|^log$|^write table/],
  ["wait", "#b9bec5", /^queue|stall|wait|space/],
  ["memtable", "#2bb58b", /memtable/],
  ["read", "#f0b429", /read|open|load|list/i],
  ["processor", "#f4ea8e", /checksum|decompress|build|filter|index|search/],
  ["operation", "#c5cdf2", /^DB::/],
  ["other", "#d9a5c6", /^/]];
// An operation is one whatever its name contains.
const kindOf = name => name.startsWith("DB::") ? KINDS[6] :
  KINDS.find(([, , pattern]) => pattern.test(name));
const colourOf = name => kindOf(name)[1];
// A merged tree has no times of day: children stand side by side.
function layOutMerged(spans) {
  const next = [0];
  return spans.map(([name, depth, count, total, p50, p99, max, shared]) => {
    const begin = next[depth];
    next[depth] = begin + total;
    next[depth + 1] = begin;
    return {name: name + (shared ? " (shared)" : ""), kind: name, depth, begin,
      length: total, other: shared,
      cells: [count.toLocaleString("en"), time(total), time(total / count),
              time(p50), time(p99),
        time(max)],
      note: `${count} times, ${time(total)} together, ` +
        `${time(total / count)} each, ` +
        `99 % in ${time(p99)}, ${time(max)} at most`};
  });
}
function layOutTrace(spans) {
  return spans.map(([name, depth, begin, length, by]) => ({name, kind: name,
    depth, begin, length, other: by !== "",
    cells: [time(begin), time(length), by],
    note: `from ${time(begin)} on, ${time(length)}` +
      (by ? `, by thread ${by}` : "")}));
}
let boxes = [], shown = [0, 1], merged = true;
function add(parent, tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return parent.appendChild(element);
}
function drawAxis(from, to) {
  const axis = byId("axis");
  axis.textContent = "";
  const span = Math.max(to - from, 1);
  const wanted = Math.max(2, Math.floor(axis.clientWidth / 70));
  const size = 10 ** Math.floor(Math.log10(span / wanted));
  const step = Math.max(1, [1, 2, 5, 10].map(each => each * size)
    .find(each => span / each <= wanted));
  const [unit, name] = unitOf(Math.max(to, step));
  const digits = Math.max(0, Math.min(6, Math.ceil(Math.log10(unit / step))));
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const left = 100 * (at - from) / span;
    const label = add(axis, "span", left > 94 ? "last" : "",
                      (at / unit).toFixed(digits));
    label.style.left = left + "%";
    add(byId("chart"), "div", "grid").style.left = left + "%";
  }
  byId("unit").textContent = (merged ? "time of all traces together, in " :
    "time since the beginning of the trace, in ") + name;
}
function draw(from, to) {
  shown = [from, to];
  const chart = byId("chart");
  chart.textContent = "";
  drawAxis(from, to);
  const span = Math.max(to - from, 1);
  let deepest = 0;
  for (const box of boxes) {
    const left = Math.max(box.begin, from);
    const right = Math.min(box.begin + box.length, to);
    if (right < left || (right - left) / span < 0.0002) continue;
    deepest = Math.max(deepest, box.depth);
    const div = add(chart, "div", "box" + (box.other ? " other" : ""));
    add(div, "span", "", box.name);
    div.append(" ");
    add(div, "b", "", time(box.length));
    div.title = `${box.name}: ${box.note}`;
    div.tabIndex = 0;
    div.style.left = 100 * (left - from) / span + "%";
    div.style.width = 100 * (right - left) / span + "%";
    div.style.top = 24 * box.depth + "px";
    div.style.backgroundColor = colourOf(box.kind);
    const show = () => { byId("note").textContent = div.title; };
    div.onmouseenter = div.onfocus = show;
    div.onclick = () => { show(); draw(box.begin, box.begin + box.length); };
    div.onkeydown = event => { if (event.key === "Enter") div.onclick(); };
  }
  chart.style.height = 24 * (deepest + 1) + 2 + "px";
}
function drawTable() {
  const head = byId("head"), rows = byId("rows");
  head.textContent = rows.textContent = "";
  const line = add(head, "tr");
  for (const name of merged ? ["span", "times", "together", "mean", "median",
                               "99 %", "longest"]
                            : ["span", "begins at", "takes", "by thread"]) {
    add(line, "th", "", name);
  }
  for (const box of boxes.slice(0, MAX_ROWS)) {
    const row = add(rows, "tr");
    const name = add(row, "td");
    name.style.paddingLeft = 1.1 * box.depth + "em";
    add(name, "i", "swatch").style.background = colourOf(box.kind);
    name.append(box.name);
    box.cells.forEach((text, i) => add(row, "td", i === 2 && !merged ?
                                       "text" : "", text));
  }
  if (boxes.length > MAX_ROWS) {
    add(add(rows, "tr"), "td", "", `and ${boxes.length - MAX_ROWS} more`);
  }
  const legend = byId("legend");
  legend.textContent = "";
  const present = new Set(boxes.map(box => kindOf(box.kind)));
  for (const kind of KINDS.filter(each => present.has(each))) {
    const key = add(legend, "span");
    add(key, "i", "swatch").style.background = kind[1];
    key.append(kind[0]);
  }
}
function whole() {
  let from = Infinity, to = 0;
  for (const box of boxes) {
    from = Math.min(from, box.begin);
    to = Math.max(to, box.begin + box.length);
  }
  byId("note").textContent = "A click on a box shows it alone. Dashed: the " +
    "work of another thread, for which this one waited.";
  if (boxes.length > 0) draw(from, to);
}
function choose() {
  const which = Number(byId("which").value);
  merged = which < 0;
  boxes = merged ? layOutMerged(data.merged)
                 : layOutTrace(data.traces[which].spans);
  drawTable();
  whole();
}
function addChoice(value, text) {
  add(byId("which"), "option", "", text).value = value;
}
addChoice(-1, "all traces together");
data.traces.forEach((trace, i) => addChoice(i, `${time(trace.spans[0][3])}, ` +
  `${trace.spans[0][0]}, ${trace.title}`));
byId("summary").textContent = `${data.count} traces; ` +
  `the ${data.traces.length} slowest can be looked at one by one.` +
  (data.merged.some(span => span[5]) ? " Shared: the wait for another " +
   "thread's work that is counted in a box of its own." : "");
byId("which").onchange = choose;
byId("all").onclick = whole;
window.onresize = () => { if (boxes.length > 0) draw(...shown); };
// "#3" selects the third of the slowest traces.
const asked = Number(location.hash.slice(1));
if (asked > 0 && asked <= data.traces.length) byId("which").value = asked - 1;
choose();
</script></body></html>
)page";

void AppendName(const std::string& name, std::string* out) {
  out->push_back('"');
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    // Neither the string nor the element may end here.
    if (c == '"' || c == '\\' || c == '<' || byte < ' ') {
      *out += "\\u00";
      *out += "0123456789abcdef"[byte >> 4];
      *out += "0123456789abcdef"[byte & 15];
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

void AppendNumbers(std::initializer_list<uint64_t> numbers, std::string* out) {
  for (const uint64_t number : numbers) *out += "," + std::to_string(number);
}

}  // namespace

std::string FormatTracePage(const TraceFile& file,
                            const std::vector<TraceTree>& trees, size_t count) {
  std::string page = kHead;
  page += "{\"count\":" + std::to_string(trees.size()) + ",\"merged\":[";
  bool first = true;
  for (const MergedSpan& span : MergeTraces(trees)) {
    if (!first) page += ",\n";
    first = false;
    page.push_back('[');
    AppendName(span.name, &page);
    AppendNumbers({span.depth, span.count, span.total_ns, span.median_ns,
                   span.p99_ns, span.max_ns},
                  &page);
    page += span.is_shared ? ",true]" : ",false]";
  }
  page += "],\"traces\":[";
  for (size_t i = 0; i < std::min(count, trees.size()); ++i) {
    const TraceTree& tree = trees[i];
    uint64_t base = tree.spans[0].begin_ns;
    for (const TraceSpan& span : tree.spans) {
      base = std::min(base, span.begin_ns);
    }
    page += i == 0 ? "\n{\"title\":" : ",\n{\"title\":";
    AppendName(DescribeTrace(file, tree.spans[0]), &page);
    page += ",\"spans\":[";
    for (size_t j = 0; j < tree.spans.size(); ++j) {
      const TraceSpan& span = tree.spans[j];
      page += j == 0 ? "[" : ",[";
      AppendName(span.name, &page);
      AppendNumbers({tree.depths[j], span.begin_ns - base, span.duration_ns},
                    &page);
      page.push_back(',');
      AppendName(span.done_by == 0 ? "" : DescribeThread(file, span.done_by),
                 &page);
      page.push_back(']');
    }
    page += "]}";
  }
  page += "]}";
  page += kTail;
  return page;
}

}  // namespace varve
