# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""The report of a lab: tables, printed as Markdown too, and charts, on one HTML
page that loads nothing."""

import functools
import html
import os
import re
import statistics
import subprocess
import textwrap
import time
from pathlib import Path

import chart
from chart import COLOURS, SHAPES, human, middle


class Spread:
    """The median of some rounds, with the least and the most of them."""

    def __init__(self, values):
        self.values = list(values)
        self.median = statistics.median(self.values)
        self.low, self.high = min(self.values), max(self.values)
        self.has_range = len(self.values) > 1

    def scaled(self, factor):
        return Spread(value * factor for value in self.values)


def figure(value):
    """Three digits of the median, and the range if there is one:
    "2.29 M (2.20 to 2.35)"."""
    if value is None:
        return "-"
    # Thousands keep their digits up to 10,000.
    factor, unit = next(((factor, unit) for least, factor, unit in (
        (1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k"))
        if abs(middle(value)) >= least), (1, ""))
    digits = next((count for least, count in ((100, 0), (10, 1), (.1, 2))
                   if abs(middle(value)) / factor >= least), 3)
    text = f"{middle(value) / factor:,.{digits}f}{unit}"
    if isinstance(value, Spread) and value.has_range:
        text += (f" ({value.low / factor:,.{digits}f} to "
                 f"{value.high / factor:,.{digits}f})")
    return text


def rounds(count):
    return f"{count} round{'s' * (count != 1)}"


def ratio(new, old):
    """Two digits of new / old; "no difference seen" if their ranges overlap."""
    if all(isinstance(each, Spread) and each.has_range for each in (new, old)):
        if new.low <= old.high and old.low <= new.high:
            return "no difference seen"
    new, old = middle(new), middle(old)
    if not old:
        return "-"
    factor = new / old
    return f"{factor:.2f}" if factor < 100 else f"{factor:,.0f}"


class Report:
    """Gathers sections; prints tables as Markdown and writes the page."""

    def __init__(self, title):
        self.title = title
        self.sections = []  # [(id, title, parts)]
        self.ideas = []  # [(id, idea, claim, place, published, unsimulated)]
        self.simulated = {}  # {id: ([row], [figure])}
        self.summary = []
        self.preface = []
        self.profiles = 0

    # ---- What it is made of --------------------------------------------

    def section(self, name, title, idea=None, published=(), unsimulated=None):
        """`idea`: what the section is about, what is claimed for it, and where
        it is in the code. `published`: rows of what others measured, before,
        after, and where. `unsimulated`: why no simulation can show the idea, if
        none can."""
        print(f"\n# {title}")
        self.sections.append((name, title, []))
        if idea is not None:
            self.ideas.append((name, *idea, published, unsimulated))

    def _add(self, part):
        (self.sections[-1][2] if self.sections else self.preface).append(part)

    def text(self, text):
        print(f"\n{text}")
        self._add(f"<p>{html_text(text)}</p>")

    def heading(self, text):
        print(f"\n## {text}")
        self._add(f"<h3>{html.escape(text)}</h3>")

    def code(self, text, folded=None):
        print(f"\n```\n{text}\n```")
        block = f'<pre tabindex="0">{html.escape(text)}</pre>'
        if folded is not None:
            block = (f"<details><summary>{html.escape(folded)}</summary>"
                     f"{block}</details>")
        self._add(block)

    def result(self, what, baseline, before, now, factor):
        """A line of the table on top of the page: what was measured, what it is
        compared with, and both figures."""
        self.summary.append((self.sections[-1][0], what, baseline, before, now,
                             factor))

    def simulation(self, section, rows, figures):
        """Rows as of result(), and charts, that the idea of another section
        has from a simulation."""
        known = self.simulated.setdefault(section, ([], []))
        known[0].extend(rows)
        known[1].extend(figures)

    def table(self, header, rows, matters=None):
        """`matters`: the header of the column that is to be seen at once, also
        on a phone."""
        print_table(header, rows)
        self._add(html_table([html.escape(cell) for cell in header],
                             [[html.escape(str(row[0])),
                               *(html_figure(str(cell)) for cell in row[1:])]
                              for row in rows],
                             matters=matters and html.escape(matters)))

    # ---- Charts ---------------------------------------------------------

    def chart(self, caption, draw, names=(), shapes=False, note=None):
        """draw(legend=names) returns a chart. Names of what has which colour,
        and with `shapes` which shape, are text of the page, so that they are of
        its size and wrap. A note stands below the chart. Returns the chart as a
        file of its own, with the names in it."""
        self._add(self.figure(caption, draw, names, shapes, note))
        return draw(legend=names)

    def figure(self, caption, draw, names, shapes, note):
        """The chart as a part of the page."""
        keys = "".join(
            f'<span><svg viewBox="-6 -6 12 12" aria-hidden="true">'
            f'<path fill="{colour}" d="{path if shapes else SHAPES[1]}"/>'
            f"</svg>{html.escape(str(name))}</span>"
            for name, colour, path in zip(names, COLOURS, SHAPES))
        below = f'<p class="note">{html_text(note)}</p>' if note else ""
        return (f"<figure><figcaption>{html.escape(caption)}</figcaption>"
                f'<div class="keys">{keys}</div>{draw()}{below}</figure>')

    def series(self, caption, series, xlabel, ylabel, better):
        """{name: values}, of which one follows the other; each name may have
        another number of them. `better` is "more" or "less"."""
        return self.chart(caption, functools.partial(
            chart.series_lines, caption, series, xlabel, ylabel, better), series)

    def lines(self, caption, labels, series, xlabel, ylabel, better, log=False,
              note=None):
        """series: {name: values}, a number or Spread for each label. A bar
        through a point is from the least to the most of the rounds."""
        return self.chart(caption, functools.partial(
            chart.lines, caption, labels, series, xlabel, ylabel, better, log),
            series, shapes=True, note=note)

    def lines_apart(self, caption, labels, series, xlabel, ylabel, better,
                    log=False, note=None):
        """The same chart as a part for simulation(), which is not added."""
        return self.figure(caption, functools.partial(
            chart.lines, caption, labels, series, xlabel, ylabel, better, log),
            series, True, note)

    def bars(self, caption, labels, series, xlabel, better, mark=None,
             log=False):
        """The same lying down, which leaves space for long labels; a line
        where the value is `mark`. `better` is "more", "less", or None if
        neither is."""
        return self.chart(caption, functools.partial(
            chart.bars, caption, labels, series, xlabel, better, mark, log),
            series if len(series) > 1 else ())

    # ---- The page --------------------------------------------------------

    def tell_story(self, body):
        """Each idea with its figures: published, measured here, simulated."""
        if not self.ideas:
            return
        body.append("<h2>The ideas</h2>")
        body.append("<p>Each idea with its claim and its figures: as others "
                    "published them, as measured on this machine, and as "
                    "simulated for many cores. Before is the baseline, after "
                    "is production. The factor is how many times as good that "
                    "is.</p>")
        for name, idea, claim, place, published, unsimulated in self.ideas:
            simulated, figures = self.simulated.get(name, ([], []))
            rows = [(what, f"published: {where}", before, after, "")
                    for what, before, after, where in published]
            # The summary has simulated figures as well, of a lab that simulates.
            rows += [(what, f"measured, {baseline}", before, after, factor)
                     for section, what, baseline, before, after, factor
                     in self.summary if section == name and
                     [what, baseline, before, after, factor] not in simulated]
            rows += [(what, f"simulated, {baseline}", before, after, factor)
                     for what, baseline, before, after, factor in simulated]
            body.append(f'<div class="idea"><h3>{html.escape(idea)}</h3>'
                        f"<p>{html_text(claim)}</p>")
            if rows:
                # How it is known is below, so that a row fits a phone.
                body.append(html_table(
                    ["figure", "before", "after", "factor"],
                    [[f"{html.escape(what)}{html_below(known)}",
                      *map(html_figure, cells)]
                     for what, known, *cells in rows], is_aligned=True,
                    matters="factor"))
            if unsimulated:
                body.append(f"<p>Not simulated: {html_text(unsimulated)}</p>")
            body.append(beside_each_other(figures))
            places = ", ".join(f"<code>{html.escape(each)}</code>"
                               for each in place.split(", "))
            body.append(f'<p>In the code: {places}. All figures: <a href="#'
                        f'{name}">{html.escape(self.title_of(name))}</a>. To '
                        f"repeat: <code>tools/quickstart lab {name}</code></p>"
                        "</div>")

    def title_of(self, name):
        return next(title for section, title, _ in self.sections
                    if section == name)

    def write(self, directory):
        body = list(self.preface)
        self.tell_story(body)
        if self.summary:
            body.append("<h2>All in one table</h2>")
            header = ["measured", "baseline", "before", "now", "factor"]
            print_table(header, [row[1:] for row in self.summary])
            body.append("<p>Before is the baseline, now is production, and the "
                        "factor is how many times as good that is. Figures are "
                        "medians. Ranges and error bars are from the least to "
                        "the most of the rounds.</p>")
            body.append(html_table(
                ["measured, and its baseline", *header[2:]],
                [[f'<a href="#{section}">{html.escape(what)}</a>'
                  f"{html_below(baseline)}", *map(html_figure, cells)]
                 for section, what, baseline, *cells in self.summary],
                is_aligned=True, matters="factor"))
        if len(self.sections) > 1:
            body.append("<nav>" + " ".join(
                f'<a href="#{name}">{html.escape(title)}</a>'
                for name, title, _ in self.sections) + "</nav>")
        for name, title, parts in self.sections:
            body.append(f'<section id="{name}"><h2>{html.escape(title)}</h2>'
                        f"{beside_each_other(parts)}</section>")
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "report.html"
        title = html.escape(self.title)
        path.write_text(PAGE.replace("@title@", title).replace(
            "@body@", "\n".join(body)), encoding="utf-8")
        return path


HEADER = ["| figures | date | commit | machine | load |", "|---|---|---|---|---|"]


class Results:
    """A results page in Markdown, with the charts as files beside it."""

    def __init__(self, report, name, code):
        """`code`: the files and folders that it measures, as git names them."""
        self.report = report
        self.name = name
        self.code = code
        self.load = f"{os.getloadavg()[0]:.1f} at the beginning"
        self.parts = []
        self.charts = {}

    def text(self, text):
        self.report.text(text)
        # The page is in docs/results.
        linked = re.sub(r"\bdocs/(\w+\.md)", r"[\1](../\1)", text)
        self.parts.append(textwrap.fill(linked, 80, break_long_words=False,
                                        break_on_hyphens=False))

    def heading(self, text):
        self.report.heading(text)
        self.parts.append(f"## {text}")

    def table(self, header, rows, matters=None):
        self.report.table(header, rows, matters)
        self.parts.append("\n".join(markdown_lines(header, rows)))

    def chart(self, name, caption, svg, note=None):
        self.charts[name] = svg
        self.parts.append(f"![{caption}]({name})")
        if note is not None:
            self.parts.append(textwrap.fill(note, 80))

    def write_charts(self, directory):
        for name, svg in self.charts.items():
            # Readable on a light and on a dark page.
            (directory / name).write_text(
                svg.replace("<svg", '<svg color="#7a828c"', 1),
                encoding="utf-8")

    def write(self, directory, command):
        directory.mkdir(parents=True, exist_ok=True)
        self.write_charts(directory)
        body = "\n\n".join(self.parts)
        (directory / f"{self.name}.md").write_text(
            f"# Results: {self.name}\n\n{self.header()}\n\n{body}\n\n"
            f"```\n{command}\n```\n", encoding="utf-8")

    def replace_section(self, path, name, figures):
        """In the page at `path`, which has others too: the section whose
        heading ends with (name), its charts, and its row of the header, which
        begins with `figures`. A new section comes last."""
        def is_it(part):
            return part.startswith("## ") and part.endswith(f" ({name})")

        begin = next(i for i, part in enumerate(self.parts) if is_it(part))
        end = next((i for i in range(begin + 1, len(self.parts))
                    if self.parts[i].startswith("## ")), len(self.parts))
        section = "\n\n".join(self.parts[begin:end])
        old = path.read_text(encoding="utf-8").split("\n## ")
        parts = [part.rstrip("\n")
                 for part in (old[0], *(f"## {part}" for part in old[1:]))]
        at = next((i for i, part in enumerate(parts)
                   if is_it(part.split("\n", 1)[0])), len(parts))
        parts[at:at + 1] = [section]
        lines = parts[0].split("\n")
        row = self.row(figures)
        known = [i for i, line in enumerate(lines)
                 if line.startswith(f"| {figures} |")]
        # Else below the other rows.
        last = lines.index("", lines.index(HEADER[1]))
        lines[known[0] if known else last:
              known[0] + 1 if known else last] = [row]
        parts[0] = "\n".join(lines)
        path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        self.write_charts(path.parent)

    def header(self):
        """What test/docs/results_test.py wants of a page."""
        code = ", ".join(f"`{each}`" for each in self.code)
        return "\n".join([*HEADER, self.row("all"), "",
                          f"Measured code: {code}."])

    def row(self, figures):
        head = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], check=False,
            cwd=Path(__file__).parent, capture_output=True, text=True)
        commit = f"`{head.stdout.strip()}`" if head.stdout else "not recorded"
        return (f"| {figures} | {time.strftime('%Y-%m-%d')} | {commit} | "
                f"{machine()} | {self.load} |")


def machine():
    """Its kind, such as "virtual machine, 2 processors, AMD EPYC"."""
    try:
        cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        cpus = ""
    virtual = re.search(r"^flags\s*:.* hypervisor\b", cpus, re.MULTILINE)
    model = re.search(r"^model name\s*:\s*(\w+)(?:\(R\))? (\w+)", cpus,
                      re.MULTILINE)
    return ", ".join(["virtual machine"] * bool(virtual) +
                     [f"{os.cpu_count()} processors"] +
                     ([f"{model[1]} {model[2]}"] if model else []))


def markdown_lines(header, rows):
    return ["| " + " | ".join(header) + " |",
            "|---" + "|---:" * (len(header) - 1) + "|",
            *("| " + " | ".join(str(cell) for cell in row) + " |"
              for row in rows)]


def print_table(header, rows):
    print("\n" + "\n".join(markdown_lines(header, rows)))


def is_text(column):
    return not all(re.fullmatch(
        r"[-+]?[\d.,]*( ?[kMG%])?( \([-\d.,]+ to [-\d.,]+\))?|nan|-", cell)
                   for cell in column)


def html_text(text):
    """Text with `names` in backquotes."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text))


def html_below(text):
    """A smaller line, which may be broken after an equals sign."""
    return f"<br><small>{html.escape(text).replace('=', '=<wbr>')}</small>"


def html_figure(text):
    """A figure with its range below it, so that a row fits a phone. Words in
    its place may be broken there."""
    if len(text) > 12 and re.match(r"[a-z]", text):
        return f'<span class="words">{html.escape(text)}</span>'
    return re.sub(r" \((.* to .*)\)$", r"<br><small>\1</small>",
                  html.escape(text))


def html_table(header, rows, is_aligned=False, matters=None):
    """With `is_aligned` all columns but the first are figures, even where a
    word stands for one. `matters` is the header of the column that must not
    need to be scrolled to."""
    classes = ["text" if is_text([re.sub("<br><small>.*</small>", "", cell)
                                  for cell in column]) else ""
               for column in zip(*rows)]
    if is_aligned:
        classes[1:] = [""] * (len(classes) - 1)
    if matters is not None and classes:
        at = header.index(matters)
        classes[at] = f"{classes[at]} matters".strip()

    def line(tag, cells):
        opened = [f'<{tag} class="{name}">' if name else f"<{tag}>"
                  for name in classes]
        return "<tr>" + "".join(f"{begin}{cell}</{tag}>" for begin, cell
                                in zip(opened, cells)) + "</tr>"

    head = line("th", [re.sub("([=_/])", r"\1<wbr>", cell) for cell in header])
    body = "".join(line("td", row) for row in rows)
    return ('<div class="wide" tabindex="0" role="region" aria-label="table">'
            "<table><thead>"
            f"{head}</thead><tbody>{body}</tbody></table></div>")


def beside_each_other(parts):
    """Charts in a row stand beside each other where there is space."""
    text = ""
    for index, part in enumerate(parts):
        is_figure = part.startswith("<figure")
        before = index > 0 and parts[index - 1].startswith("<figure")
        after = (index + 1 < len(parts) and
                 parts[index + 1].startswith("<figure"))
        if is_figure and not before:
            text += '<div class="charts">'
        text += part
        if is_figure and not after:
            text += "</div>"
        text += "\n"
    return text


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>@title@</title>
<style>
:root { --ink: #1f2328; --soft: #5b6470; --line: #d9dee3; --box: #f5f7f9;
        --page: #fff; --link: #0b5cad; --fade: rgba(0, 0, 0, .35); }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --soft: #9aa5b1; --line: #333b44; --box: #1d232a;
          --page: #14181d; --link: #7ab8f5; --fade: rgba(255, 255, 255, .4); }
}
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 0 auto;
       padding: 1rem; color: var(--ink); background: var(--page);
       overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.35rem; margin-top: 2.5rem; padding-top: .8rem;
     border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin-top: 1.6rem; }
p { max-width: 44rem; }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; margin: 1rem 0; }
.wide, pre { overflow-x: auto; max-width: 100%; }
/* A shadow at the side where more is to be seen. The first two layers move with
   the content and cover the shadows at its ends. */
.wide, pre {
  background:
    linear-gradient(90deg, var(--below) 50%, transparent) 0 0 / 2.5rem 100%,
    linear-gradient(270deg, var(--below) 50%, transparent) 100% 0 / 2.5rem 100%,
    linear-gradient(90deg, var(--fade), transparent) 0 0 / 1rem 100%,
    linear-gradient(270deg, var(--fade), transparent) 100% 0 / 1rem 100%,
    var(--below);
  background-attachment: local, local, scroll, scroll;
  background-repeat: no-repeat; }
.wide { --below: var(--page); }
pre { --below: var(--box); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums;
        font-size: .9rem; margin: .6rem 0; overflow-wrap: normal; }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line);
         text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; white-space: normal;
                                 min-width: 8.5rem; }
th.text, td.text { text-align: left; }
td.matters { font-weight: 600; }
pre { padding: .7rem; font-size: 12.5px;
      border-radius: 6px; overflow-wrap: normal; }
summary { cursor: pointer; color: var(--soft); }
.charts { display: grid; gap: 1rem; align-items: start;
          grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); }
figure { margin: .8rem 0; max-width: 34rem; min-width: 0; }
figure > svg { display: block; width: 100%; height: auto; }
.keys { display: flex; flex-wrap: wrap; gap: 0 1rem; font-size: .85rem;
        color: var(--soft); }
.keys svg { display: inline-block; width: .9em; height: .9em;
            margin-right: .35em; vertical-align: -.1em; }
small { color: var(--soft); }
@media (max-width: 30rem) {
  th, td { padding-right: .45rem; }
  th, .words { white-space: normal; }
  td.matters .words { font-weight: 400; font-size: .75rem; }
  th:first-child, td:first-child { min-width: 6rem; }
}
.note { font-size: .82rem; color: var(--soft); margin: .2rem 0 0; }
.idea { margin-top: 1.6rem; padding-top: .2rem;
        border-top: 1px solid var(--line); }
figcaption { font-weight: 600; font-size: .92rem; margin-bottom: .3rem; }
</style></head><body><h1>@title@</h1>
@body@
</body></html>
"""
