# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Charts as SVG: small files with one path for each line and each set of bars,
in the colour of the page's text, so that they are readable on a light and on a
dark page."""

import html
import math

# Production first: what it is compared with follows. Each is legible on a light
# and on a dark page, and differs from the others for people with any kind of
# colour vision. Lines have a shape each as well, in a square from -5 to 5.
COLOURS = ["#2a7fd4", "#d96a14", "#91509b", "#4b6e4b", "#968c96", "#c8280f"]
SHAPES = ["m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "m-4-4h8v8h-8z",
          "m0-4.5l4.5 8.5h-9z", "m0-5l5 5-5 5-5-5z", "m0 4.5l4.5-8.5h-9z",
          "m-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z"]
WIDTH = 331
SIZE = 9.5  # Of text.
SMALL = 8
LINE = 14  # From one line of text to the next.


def human(value):
    """1234567 as 1.23 M: three digits say enough."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{unit}"
    return "0" if abs(value) < .005 else f"{value:.3g}"


def middle(value):
    """The median of rounds; a number is its own."""
    return getattr(value, "median", value)


def ends(value):
    """The least and the most of rounds."""
    return getattr(value, "low", value), getattr(value, "high", value)


def directed(label, better):
    """A label of an axis that says which direction is better."""
    return f"{label} ({better} is better)" if better else label


def width_of(text, size=SIZE):
    """About, in a font that the reader chooses."""
    return .58 * size * len(str(text))


def number(value):
    """A coordinate."""
    return f"{value:.1f}".removesuffix(".0")


class Scale:
    """From values to places between `begin` and `end`."""

    def __init__(self, values, begin, end, log=False, room=1.05):
        self.begin, self.end, self.log = begin, end, log
        # A logarithmic scale has no place for zero.
        values = [value for value in values if value > 0 or not log] or [1]
        self.low = min(values) / 1.5 if log else 0
        self.high = max(values) * (1.25 if log else 1) * room
        if self.high <= self.low:
            self.high = self.low + 1

    def __call__(self, value):
        if self.log:
            part = (math.log(max(value, self.low) / self.low) /
                    math.log(self.high / self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    def ticks(self):
        if self.log:
            steps = (1, 2, 5) if self.high < 100 * self.low else (1,)
            decades = range(math.floor(math.log10(self.low)),
                            math.ceil(math.log10(self.high)) + 1)
            every = max(len(decades) // 7, 1)
            found = [step * 10.0 ** decade for decade in decades[::every]
                     for step in steps]
            return [value for value in found if self.low <= value <= self.high]
        least = self.high / 6
        power = 10.0 ** math.floor(math.log10(least))
        step = next(factor * power for factor in (1, 2, 2.5, 5, 10)
                    if factor * power >= least)
        return [step * count for count in range(int(self.high / step) + 1)]


class Chart:
    """The elements of a chart, with a legend above it if there are names."""

    def __init__(self, caption, height, legend):
        self.caption = caption
        self.parts = []
        self.top = 6
        x = 2
        for name, colour in zip(legend, COLOURS):
            if x > 2 and x + 12 + width_of(name) > WIDTH:
                x = 2
                self.top += LINE
            self.path(f"M{number(x)} {self.top - 3}h8v8h-8z", f'fill="{colour}"')
            self.text(x + 12, self.top + 4.5, name)
            x += 24 + width_of(name)
        if legend:
            self.top += LINE
        self.height = self.top + height

    def text(self, x, y, text, anchor="", size=None, turned=False):
        attributes = f' text-anchor="{anchor}"' if anchor else ""
        if size is not None:
            attributes += f' font-size="{size}"'
        if turned:
            attributes += f' transform="rotate(-90 {number(x)} {number(y)})"'
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}"{attributes}>'
                          f"{html.escape(str(text), quote=False)}</text>")

    def path(self, data, attributes):
        if data:
            self.parts.append(f'<path d="{data}" {attributes}/>')

    def error_bars(self, bars, colour):
        """bars: [(place across, from, to)] along the y axis."""
        self.path("".join(f"M{number(x - 3)} {number(low)}h6m-3 0V{number(high)}"
                          "m-3 0h6" for x, low, high in bars),
                  f'class="errors" fill="none" stroke="{colour}"')

    def frame(self, left, bottom):
        """The two axes."""
        self.path(f"M{number(left)} {number(self.top)}V{number(bottom)}H{WIDTH - 3}",
                  'fill="none" stroke="currentColor" stroke-width=".8"')

    def svg(self):
        lines = "\n".join(self.parts)
        return (f'<svg role="img" aria-label="{html.escape(self.caption)}" '
                f'xmlns="http://www.w3.org/2000/svg" width="{WIDTH}pt" '
                f'height="{number(self.height)}pt" '
                f'viewBox="0 0 {WIDTH} {number(self.height)}" '
                f'font-family="sans-serif" font-size="{SIZE}" '
                f'fill="currentColor">\n{lines}\n</svg>\n')


def upright(caption, height, legend, values, ylabel, better, log):
    """A chart whose values go up: (chart, scale of values, left, bottom)."""
    chart = Chart(caption, height, legend)
    bottom = chart.height - 2.4 * LINE
    scale = Scale([end for value in values for end in ends(value)], bottom,
                  chart.top, log)
    ticks = scale.ticks()
    left = 20 + max(width_of(human(value)) for value in ticks)
    for value in ticks:
        chart.text(left - 5, scale(value) + 3.3, human(value), "end")
    chart.path("".join(f"M{number(left)} {number(scale(value))}H{WIDTH - 3}"
                       for value in ticks),
               'stroke="currentColor" stroke-width=".8" opacity=".2"')
    chart.frame(left, bottom)
    chart.text(9, (chart.top + bottom) / 2, directed(ylabel, better), "middle",
               turned=True)
    return chart, scale, left, bottom


def lines(caption, labels, series, xlabel, ylabel, better, log, legend=()):
    """series: {name: value for each label}; a bar through a point is from the
    least to the most of the rounds. The first is drawn last and narrower, so
    that it and what it covers are both seen."""
    chart, scale, left, bottom = upright(
        caption, 202, legend, [value for values in series.values()
                               for value in values], ylabel, better, log)
    inset = 12
    step = (WIDTH - 3 - left - 2 * inset) / max(len(labels) - 1, 1)
    places = [left + inset + step * index for index in range(len(labels))]
    for place, label in zip(places, labels):
        chart.text(place, bottom + LINE, label, "middle")
    chart.text((left + WIDTH) / 2, bottom + 2.1 * LINE, xlabel, "middle")
    drawn = list(zip(series.values(), SHAPES, COLOURS))
    for index, (values, shape, colour) in reversed(list(enumerate(drawn))):
        points = [f"{number(x)} {number(scale(middle(value)))}"
                  for x, value in zip(places, values)]
        chart.path("M" + "L".join(points),
                   f'fill="none" stroke="{colour}" '
                   f'stroke-width="{4 if index else 2}"')
        chart.path("".join(f"M{point}{shape}" for point in points),
                   f'fill="{colour}"')
        chart.error_bars([(x, *map(scale, ends(value)))
                          for x, value in zip(places, values)
                          if ends(value)[0] != ends(value)[1]], colour)
    return chart.svg()


def thinned(points):
    """Of points with the same x, the least and the most y in their order."""
    column = []
    for point in [*points, None]:
        if column and (point is None or point[0] != column[0][0]):
            least = min(range(len(column)), key=lambda i: column[i][1])
            most = max(range(len(column)), key=lambda i: column[i][1])
            yield from (column[i] for i in sorted({least, most}))
            column = []
        if point is not None:
            column.append(point)


def series_lines(caption, series, xlabel, ylabel, better, legend=()):
    """{name: values}, of which one follows the other; each name may have
    another number of them."""
    chart, scale, left, bottom = upright(
        caption, 187, legend, [value for values in series.values()
                               for value in values], ylabel, better, False)
    along = Scale([len(values) for values in series.values()], left, WIDTH - 3,
                  room=1.01)
    for value in along.ticks():
        chart.text(along(value), bottom + LINE, human(value), "middle")
    chart.text((left + WIDTH) / 2, bottom + 2.1 * LINE, xlabel, "middle")
    for values, colour in zip(series.values(), COLOURS):
        points = [(round(2 * along(index)) / 2, round(scale(value), 1))
                  for index, value in enumerate(values, 1)]
        chart.path("M" + "L".join(f"{number(x)} {number(y)}"
                                  for x, y in thinned(points)),
                   f'fill="none" stroke="{colour}"')
    return chart.svg()


def bars(caption, labels, series, xlabel, better, mark=None, log=False,
         legend=()):
    """The values of lines() lying down, which leaves space for long labels; a
    line where the value is `mark`."""
    thick = 10
    row = thick * (len(series) + .6)
    chart = Chart(caption, 2.8 * LINE + row * len(labels), legend)
    bottom = chart.height - 2.8 * LINE
    left = 6 + max(width_of(label) for label in labels)
    values = [value for each in series.values() for value in each]
    marks = [] if mark is None else [mark]
    shown = max(width_of(human(middle(value)), SMALL) for value in values)
    scale = Scale([end for value in values for end in ends(value)] + marks,
                  left, WIDTH - 8 - shown, log, room=1)
    for index, label in enumerate(labels):
        chart.text(left - 5, chart.top + row * (index + .5) + 3, label, "end")
    for value in scale.ticks():
        chart.text(scale(value), bottom + LINE, human(value), "middle")
    chart.path("".join(f"M{number(scale(value))} {number(bottom)}v3"
                       for value in scale.ticks()), 'stroke="currentColor"')
    for place, (each, colour) in enumerate(zip(series.values(), COLOURS)):
        # From the top of a bar to the next one's of the series.
        tops = [chart.top + row * index + thick * (place + .3)
                for index in range(len(labels))]
        chart.path("".join(
            f"M{number(left)} {number(top)}H{number(scale(middle(value)))}"
            f"v{thick - 1}H{number(left)}z" for top, value in zip(tops, each)),
            f'fill="{colour}"')
        chart.path("".join(
            f"M{number(low)} {number(top + 2.5)}v4m0-2H{number(high)}m0-2v4"
            for top, (low, high) in zip(tops, (
                map(scale, ends(value)) for value in each)) if low != high),
            'class="errors" fill="none" stroke="currentColor"')
        for top, value in zip(tops, each):
            chart.text(max(map(scale, (middle(value), ends(value)[1]))) + 3,
                       top + 7.5, human(middle(value)), size=SMALL)
    if mark is not None:
        chart.path(f"M{number(scale(mark))} {number(chart.top)}"
                   f"V{number(bottom)}",
                   'stroke="currentColor" stroke-dasharray="1 2"')
    chart.frame(left, bottom)
    # Of the whole width: long labels leave little to the axis.
    chart.text(WIDTH / 2, bottom + 2.3 * LINE, directed(xlabel, better),
               "middle")
    return chart.svg()
