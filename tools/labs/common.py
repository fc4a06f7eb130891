# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What all labs share: db_bench, the page cache, charts, and the report."""

import argparse
import html
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import matplotlib
    from matplotlib import pyplot
except ModuleNotFoundError:
    sys.exit("lab: needs matplotlib of this python3; tools/install_deps "
             "installs Debian's")

ROOT = Path(__file__).resolve().parent.parent.parent


def parser(name, description):
    result = argparse.ArgumentParser(
        prog=f"lab {name}", description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--db_bench", type=Path,
                        default=ROOT / "build" / "release" / "db_bench",
                        help="default: build/release")
    result.add_argument("--dir", type=Path,
                        help="where to build databases, on a real disk "
                        "(default: a directory made below $TEST_TMPDIR or "
                        "/var/tmp, and removed)")
    result.add_argument("--out", type=Path, default=Path(f"lab-{name}"),
                        help="directory of the report (default: %(default)s)")
    result.add_argument("--rounds", type=int, default=3)
    result.add_argument("--duration", type=int, default=2,
                        help="seconds of one measurement")
    return result


class Workplace:
    """The directory of the databases; removed at the end if it was made."""

    def __init__(self, directory):
        self.made = directory is None
        if self.made:
            base = os.environ.get("TEST_TMPDIR", "/var/tmp")
            directory = Path(tempfile.mkdtemp(prefix="varve-lab-", dir=base))
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        if self.made:
            shutil.rmtree(self.path, ignore_errors=True)


def say(text):
    """Progress, for whoever waits."""
    print(text, file=sys.stderr, flush=True)


def run_bench(options, flags, wrapper=()):
    """Runs db_bench; returns the results of its benchmarks, as its report has
    them. A failure ends the lab with what db_bench said."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [*wrapper, str(options.db_bench), *flags,
                   f"--report_json={report.name}"]
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            sys.exit(f"lab: {' '.join(command)}\n{done.stderr}{done.stdout}")
        results = json.load(report)
    return results.get("benchmarks", results.get("results"))


def drop_from_page_cache(directory):
    """Writes back and evicts all files of a directory."""
    os.sync()
    for path in Path(directory).iterdir():
        if not path.is_file():
            continue
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def device_of(directory):
    """The file system and device of a directory, for the report."""
    done = subprocess.run(["df", "--output=source,fstype", str(directory)],
                          capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split()[2:]) or "unknown"


def machine():
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} * {model}, Linux {platform.release()}"


class Report:
    """Gathers sections; prints tables as Markdown and writes one HTML page."""

    def __init__(self, title):
        self.title = title
        self.parts = []

    def text(self, text):
        print(f"\n{text}")
        self.parts.append(f"<p>{html.escape(text)}</p>")

    def heading(self, text):
        print(f"\n## {text}")
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def code(self, text):
        print(f"\n```\n{text}\n```")
        self.parts.append(f"<pre>{html.escape(text)}</pre>")

    def table(self, header, rows):
        print("\n| " + " | ".join(header) + " |")
        print("|---" + "|---:" * (len(header) - 1) + "|")
        for row in rows:
            print("| " + " | ".join(str(cell) for cell in row) + " |")
        cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>"
                             for cell in row) + "</tr>" for row in rows)
        self.parts.append('<div class="wide"><table><thead><tr>'
                          f"{cells}</tr></thead><tbody>{body}</tbody>"
                          "</table></div>")

    def chart(self, caption, draw):
        """draw(axes) draws with matplotlib; the chart becomes part of the
        page."""
        matplotlib.use("svg")
        figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
        draw(axes)
        text = io.StringIO()
        figure.savefig(text, format="svg")
        pyplot.close(figure)
        svg = text.getvalue()
        svg = svg[svg.index("<svg"):]
        self.parts.append(f'<figure>{svg}<figcaption>{html.escape(caption)}'
                          "</figcaption></figure>")

    def write(self, directory):
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "report.html"
        path.write_text(PAGE.format(title=html.escape(self.title),
                                    body="\n".join(self.parts)),
                        encoding="utf-8")
        say(f"written: {path}")


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem;
       margin: 0 auto; padding: 1rem; color: #222; background: #fff; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .25rem .6rem; border-bottom: 1px solid #ddd;
         text-align: right; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }}
.wide, pre {{ overflow-x: auto; }}
pre {{ background: #f6f6f6; padding: .6rem; font-size: 13px; }}
figure {{ margin: 1rem 0; }} figure svg {{ width: 100%; height: auto; }}
figcaption {{ color: #666; }}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""
