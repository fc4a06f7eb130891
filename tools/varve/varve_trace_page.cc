// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The page of `varve trace`. It loads nothing: style, program and data are in
// it. A chart is a row of boxes for each depth, as wide as their time; a click
// on a box makes it as wide as the page.

#include <algorithm>
#include <string>

#include "tools/varve/varve_trace.h"

namespace varve {

namespace {

constexpr char kHead[] = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Varve traces</title><style>
body { font: 14px sans-serif; margin: 1em; color: #222; background: #fff; }
#chart { position: relative; border: 1px solid #ccc; overflow: hidden; }
.box { position: absolute; height: 19px; overflow: hidden; cursor: pointer;
  white-space: nowrap; font: 12px/19px monospace; box-sizing: border-box;
  border: 1px solid #fff; border-radius: 3px; padding: 0 3px; }
.box:hover { border-color: #222; }
.other { border-style: dashed; border-color: #555; }
select { max-width: 100%; }
#note { min-height: 1.5em; margin: .5em 0; font-family: monospace; }
</style></head><body>
<h1>Varve traces</h1>
<p id="summary"></p>
<p><select id="which"></select> <button id="all">whole trace</button></p>
<div id="note"></div><div id="chart"></div>
<p>Click on a box to zoom. Dashed: another thread did it.</p>
<script id="data" type="application/json">)";

constexpr char kTail[] = R"(</script><script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
const us = ns => (ns / 1000).toFixed(3) + " \u00b5s";
// A merged tree has no times of day: children stand side by side.
function layOutMerged(spans) {
  const next = [0], boxes = [];
  for (const [name, depth, count, total, max] of spans) {
    const begin = next[depth];
    next[depth] = begin + total;
    next[depth + 1] = begin;
    boxes.push({name, depth, begin, length: total,
      note: `${name}: ${count} times, ${us(total)} together, ` +
        `${us(total / count)} each, ${us(max)} at most`});
  }
  return boxes;
}
function layOutTrace(spans) {
  return spans.map(([name, depth, begin, length, by]) => ({name, depth, begin,
    length, by, note: `${name}: from ${us(begin)} on, ${us(length)}` +
      (by ? `, by thread ${by}` : "")}));
}
function hue(name) {
  let h = 0;
  for (const c of name) h = (h * 31 + c.charCodeAt(0)) % 360;
  return `hsl(${h}, 60%, 80%)`;
}
let boxes = [];
function draw(from, to) {
  const chart = byId("chart");
  chart.textContent = "";
  const span = Math.max(to - from, 1);
  let deepest = 0;
  for (const box of boxes) {
    const left = Math.max(box.begin, from);
    const right = Math.min(box.begin + box.length, to);
    if (right < left || (right - left) / span < 0.0002) continue;
    deepest = Math.max(deepest, box.depth);
    const div = document.createElement("div");
    div.className = "box" + (box.by ? " other" : "");
    div.textContent = box.name;
    div.title = box.note;
    div.style.left = 100 * (left - from) / span + "%";
    div.style.width = 100 * (right - left) / span + "%";
    div.style.top = 20 * box.depth + "px";
    div.style.background = hue(box.name);
    div.onmouseenter = () => { byId("note").textContent = box.note; };
    div.onclick = () => draw(box.begin, box.begin + box.length);
    chart.appendChild(div);
  }
  chart.style.height = 20 * (deepest + 1) + "px";
}
function whole() {
  let from = Infinity, to = 0;
  for (const box of boxes) {
    from = Math.min(from, box.begin);
    to = Math.max(to, box.begin + box.length);
  }
  draw(from, to);
}
function choose() {
  const which = Number(byId("which").value);
  boxes = which < 0 ? layOutMerged(data.merged)
                    : layOutTrace(data.traces[which].spans);
  whole();
}
function addChoice(value, text) {
  const option = document.createElement("option");
  option.value = value;
  option.textContent = text;
  byId("which").appendChild(option);
}
addChoice(-1, "all traces together");
data.traces.forEach((trace, i) => addChoice(i, `trace ${trace.id}: ` +
  `${trace.spans[0][0]}, ${us(trace.spans[0][3])}`));
byId("summary").textContent = `${data.count} traces; ` +
  `the ${data.traces.length} slowest can be looked at one by one.`;
byId("which").onchange = choose;
byId("all").onclick = whole;
choose();
</script></body></html>
)";

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

void AppendRow(const std::string& name, std::initializer_list<uint64_t> numbers,
               std::string* out) {
  out->push_back('[');
  AppendName(name, out);
  for (const uint64_t number : numbers) *out += "," + std::to_string(number);
  out->push_back(']');
}

}  // namespace

std::string FormatTracePage(const std::vector<TraceTree>& trees, size_t count) {
  std::string page = kHead;
  page += "{\"count\":" + std::to_string(trees.size()) + ",\"merged\":[";
  bool first = true;
  for (const MergedSpan& span : MergeTraces(trees)) {
    if (!first) page += ",\n";
    first = false;
    AppendRow(span.name, {span.depth, span.count, span.total_ns, span.max_ns},
              &page);
  }
  page += "],\"traces\":[";
  for (size_t i = 0; i < std::min(count, trees.size()); ++i) {
    const TraceTree& tree = trees[i];
    uint64_t base = tree.spans[0].begin_ns;
    for (const TraceSpan& span : tree.spans) {
      base = std::min(base, span.begin_ns);
    }
    page += (i == 0 ? "\n{\"id\":" : ",\n{\"id\":") +
            std::to_string(tree.spans[0].trace) + ",\"spans\":[";
    for (size_t j = 0; j < tree.spans.size(); ++j) {
      const TraceSpan& span = tree.spans[j];
      if (j > 0) page += ',';
      AppendRow(span.name,
                {tree.depths[j], span.begin_ns - base, span.duration_ns,
                 span.done_by},
                &page);
    }
    page += "]}";
  }
  page += "]}";
  page += kTail;
  return page;
}

}  // namespace varve
