#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Makes the header, the options and the simple bodies of RocksDB's C interface.

Everything comes from functions.txt, whose rows README.md explains.

Usage: generate.py [--version 7.8|10|11] [--check] DIRECTORY
       generate.py --page [--check] docs

The first writes rocksdb/c.h, fields.h and generated.cc to DIRECTORY, the second
the page that lists the functions. A file whose content is the same is left
alone. With --check, files are only compared.
"""

import argparse
import re
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
TABLE = FOLDER / "functions.txt"
# The versions of RocksDB whose signatures differ, with the number of each in
# the header.
VERSIONS = {"7.8": 708, "10": 1000, "11": 1100}
EFFECTS = {"used": "kUsed", "accepted": "kAccepted", "refused": "kRefused"}
# Objects whose accepted fields are in LOG when a database was opened.
LOGGED_AT_OPEN = ("Options", "BlockBasedTableOptions")
FUNCTION_KINDS = ("done", "missing", "object")
LICENCE = "// Varve: a key-value storage engine. MIT licence, see LICENSE."
MADE = "// Made by compat/rocksdb/generate.py from functions.txt."


class Invalid(Exception):
    """A row that cannot be understood."""


@dataclass
class Parameter:
    """A parameter of a function. An array that the function fills has as
    `count` the parameter with its length."""
    type: str
    name: str
    count: str = ""

    def declaration(self, named=True):
        if "(*" in self.type:  # A pointer to a function.
            return self.type.replace("(*)", f"(*{self.name})" if named
                                     else "(*)", 1)
        return f"{self.type} {self.name}" if named else self.type

    def is_output(self):
        """Whether the caller's variable or array is set."""
        return bool(self.count) or re.fullmatch(
            r"(size_t|int|u?int(32|64)_t|char\*{1,2})\*", self.type) is not None


@dataclass
class Function:
    kind: str      # One of FUNCTION_KINDS, or "field".
    result: str
    name: str
    parameters: list[Parameter]
    feature: str = ""   # What is missing.
    versions: str = ""  # As in the row.
    header: str = ""    # With the type, for "object".

    def prototype(self, names=True):
        inside = ", ".join(p.declaration(names) for p in self.parameters)
        return f"{self.result} {self.name}({inside or 'void'})"


@dataclass
class Field:
    """A value of an object, which functions set and return."""
    effect: str
    type: str
    name: str
    default: str
    accessors: str
    feature: str = ""
    versions: str = ""


@dataclass
class Object:
    """A type that is derived from a struct with fields."""
    name: str
    type: str
    prefix: str   # Of the names of its functions.
    header: str   # Defines the type. If empty, fields.h does.
    fields: list[Field] = field(default_factory=list)


@dataclass
class Group:
    title: str
    functions: list[Function] = field(default_factory=list)
    objects: list[Object] = field(default_factory=list)


@dataclass
class Table:
    groups: list[Group] = field(default_factory=list)
    enums: list[str] = field(default_factory=list)
    structs: list[str] = field(default_factory=list)
    callbacks: list[str] = field(default_factory=list)

    def functions(self, version=None):
        """The functions of one version, or of all."""
        return [f for g in self.groups for f in g.functions
                if version is None or holds(f.versions, version)]

    def objects(self):
        return [o for g in self.groups for o in g.objects]


def holds(versions, version):
    """Whether a version is in "7.8", "..10", "10..", or "", which is all."""
    if not versions:
        return True
    first, between, last = versions.partition("..")
    number = VERSIONS[version]
    if not between:
        return number == VERSIONS[first]
    return ((not first or number >= VERSIONS[first])
            and (not last or number <= VERSIONS[last]))


# ---- Reading ----------------------------------------------------------------


def rows(text):
    """Yields the first line's number of each row, and the row as one line."""
    row, begin = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.rstrip()
        if line.startswith("    "):
            row += " " + line.strip()
            continue
        if row:
            yield begin, row
        row, begin = ("" if line.startswith("#") else line), number
    if row:
        yield begin, row


def split_parameters(text):
    """Splits at the commas that are outside of parentheses."""
    parts, depth, part = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += character
    return parts + [part.strip()] if part.strip() else parts


def parse_parameter(text, position):
    pointer = re.match(r"(.*?\(\*)(\w*)(\).*)", text)
    if pointer:
        return Parameter(pointer[1] + pointer[3],
                         pointer[2] or f"argument{position}")
    array = re.fullmatch(r"(.+\W)(\w+)\[(\w+)\]", text)
    if array:
        return Parameter(array[1].strip() + "*", array[2], array[3])
    named = re.fullmatch(r"(.*[\s*])(\w+)", text)
    if not named or named[2] in ("char", "int") or named[2].endswith("_t"):
        return Parameter(text, f"argument{position}")
    return Parameter(named[1].strip(), named[2])


def parse_signature(text):
    parsed = re.fullmatch(r"(.*?)\s*\b(rocksdb_\w+)\((.*)\)", text)
    if not parsed:
        raise Invalid(f"no signature: {text}")
    return parsed[1], parsed[2], [
        parse_parameter(part, position)
        for position, part in enumerate(split_parameters(parsed[3]))]


def parse_field(effect, feature, versions, text):
    parsed = re.fullmatch(
        r"(.+) (\w+) = (\S+?)(?:; (.+))?", text)
    if not parsed:
        raise Invalid(f"no field: {text}")
    return Field(effect, parsed[1], parsed[2], parsed[3],
                 parsed[4] or "set get", feature, versions)


def accessors(owner, value):
    """Yields the functions that set and return a field."""
    for verb, name, given in re.findall(
            r"(set|get)(?:=(\w+))?(?:\(([^)]*)\))?", value.accessors):
        name = name or f"{owner.prefix}{verb}_{value.name}"
        plain = "const char*" if value.type == "string" else value.type
        handle = [Parameter(f"{owner.type}*", "options")]
        if verb == "set":
            yield Function("field", "void", name, handle + [
                Parameter(given or plain, "value")], versions=value.versions)
        else:
            size = [Parameter("size_t*", "size")]
            yield Function("field", given or plain, name,
                           handle + size * (value.type == "string"),
                           versions=value.versions)


def parse_row(row, table):
    if row.startswith("["):
        table.groups.append(Group(row[1:-1]))
        return
    head, colon, text = row.partition(":")
    text = text.strip()
    if not colon or not text:
        raise Invalid(f"no colon: {row}")
    head, _, versions = head.partition(" @")
    kind, _, rest = head.partition(" ")
    group = table.groups[-1]
    if kind in ("enum", "struct", "callback"):
        getattr(table, kind + "s").append(text)
    elif kind in EFFECTS:
        value = parse_field(kind, rest, versions, text)
        owner = group.objects[-1]
        owner.fields.append(value)
        group.functions += accessors(owner, value)
    elif kind == "object" and "(" not in text:
        name, _, header = rest.partition(" in ")
        type_name, _, prefix = text.partition(", ")
        group.objects.append(Object(
            name, type_name, prefix.rstrip("*") or type_name[:-1], header))
    elif kind in FUNCTION_KINDS:
        group.functions.append(Function(
            kind, *parse_signature(text), versions=versions,
            feature=rest if kind == "missing" else "",
            header=rest.removeprefix("in ") if kind == "object" else ""))
    else:
        raise Invalid(f"unknown kind: {kind}")


def load(path=TABLE):
    table = Table()
    for number, row in rows(path.read_text(encoding="utf-8")):
        try:
            parse_row(row, table)
        except (Invalid, IndexError) as error:
            raise SystemExit(f"{path}:{number}: {error}") from error
    return table


# ---- rocksdb/c.h -------------------------------------------------------------


def packed(text, indent="", width=80):
    """A declaration or call, broken at the commas of its outer parentheses."""
    if len(indent + text) <= width:
        return indent + text
    begin = text.index("(") + 1
    if text.startswith("*", begin):  # typedef void (*name)(...)
        begin = text.index("(", begin) + 1
    end = text.rindex(")")
    parts = split_parameters(text[begin:end])
    if not parts:
        return indent + text
    parts = [part + "," for part in parts[:-1]] + [parts[-1] + text[end:]]
    lines, line = [indent + text[:begin]], indent + "   "
    for part in parts:
        if line.strip() and len(line) + 1 + len(part) > width:
            lines.append(line)
            line = indent + "   "
        line += " " + part
    return "\n".join(lines + [line])


def opaque_types(table):
    """The names of the types that only the library defines."""
    text = " ".join(
        [f.prototype() for f in table.functions()] + table.callbacks)
    known = {s.split()[0] for s in table.structs}
    names = set(re.findall(r"\brocksdb_\w+_t\b", text)) | {"rocksdb_t"}
    return sorted(name for name in names - known)


def header(table, version):
    """The text of rocksdb/c.h."""
    out = [LICENCE, MADE, "", "// RocksDB's C interface, on Varve.",
           "#pragma once", "", "#include <stdbool.h>", "#include <stddef.h>",
           "#include <stdint.h>", "",
           "// The version of RocksDB whose signatures these are, as 100 times",
           "// the major number plus the minor number.",
           f"#define VARVE_ROCKSDB_C_VERSION {VERSIONS[version]}", "",
           "#if defined(__GNUC__)",
           "#define ROCKSDB_LIBRARY_API "
           "__attribute__((visibility(\"default\")))",
           "#else", "#define ROCKSDB_LIBRARY_API", "#endif", "",
           "#ifdef __cplusplus", "extern \"C\" {", "#endif", ""]
    out += [f"typedef struct {name} {name};" for name in opaque_types(table)]
    for text in table.structs:
        name, _, body = text.partition(" ")
        out.append(f"typedef struct {name} {body} {name};")
    out += [""] + [packed(f"typedef {text};") for text in table.callbacks]
    for text in table.enums:
        values = ",\n".join(f"  {value.strip()}" for value in text.split(","))
        out += ["", f"enum {{\n{values}\n}};"]
    for group in table.groups:
        functions = [f for f in group.functions if holds(f.versions, version)]
        if functions:
            out += ["", f"// {group.title}.", ""]
            out += [packed(f"ROCKSDB_LIBRARY_API {f.prototype()};")
                    for f in functions]
    out += ["", "#ifdef __cplusplus", "}", "#endif", ""]
    return "\n".join(out)


# ---- fields.h ----------------------------------------------------------------


def cpp_type(type_name):
    return "std::string" if type_name == "string" else type_name


def cpp_value(value):
    """A literal as C++ has it: without a suffix, a number fits into int64_t."""
    is_large = value.isdigit() and int(value) > 2**63 - 1
    return value + "u" if is_large else value


def fields_header(table):
    """The text of fields.h."""
    out = [LICENCE, MADE, "#pragma once", "", "#include <cstddef>",
           "#include <cstdint>", "#include <string>", "",
           "#include \"compat/rocksdb/options/field.h\"",
           "#include \"rocksdb/c.h\"", "",
           "namespace varve::rocksdb_c {"]
    for one in table.objects():
        out += ["", f"// The values of a {one.type}.",
                f"struct {one.name}Fields {{"]
        out += [f"  {cpp_type(value.type)} {value.name} = "
                f"{cpp_value(value.default)};" for value in one.fields]
        out += ["};", f"inline constexpr Field k{one.name}Fields[] = {{"]
        for value in one.fields:
            feature = f", \"{value.feature}\"" if value.feature else ""
            out.append(
                f"    FieldOf<&{one.name}Fields::{value.name}>("
                f"\"{value.name}\", FieldKind::{EFFECTS[value.effect]}"
                f"{feature}),")
        out.append("};")
    out += ["", "}  // namespace varve::rocksdb_c", ""]
    out += [f"struct {one.type} : varve::rocksdb_c::{one.name}Fields {{}};"
            for one in table.objects() if not one.header]
    return "\n".join(out) + "\n"


# ---- generated.cc ------------------------------------------------------------


def body_of_missing(function):
    """The statements of a function whose feature does not exist."""
    last = function.parameters[-1].name if function.parameters else ""
    if (function.name.endswith(("_destroy", "_close"))
            and last not in ("errptr", "errs")):
        return []  # Nothing was created, so the argument is null.
    out = [f"Clear({p.name}, {p.count or 1});" for p in function.parameters
           if p.is_output() and p.name not in ("errptr", "errs")]
    if last == "errptr":
        out.append(f"ReplaceError(errptr, Missing(\"{function.feature}\"));")
    elif last == "errs":
        out.append(f"SetErrors(errs, {function.parameters[-1].count}, "
                   f"\"{function.feature}\");")
    else:
        out.append(f"NoteMissing(\"{function.name}\", "
                   f"\"{function.feature}\");")
    if function.result != "void":
        out.append("return {};")
    return out


def body_of_object(function):
    """The statements of a function that creates, copies or destroys."""
    if function.result == "void":
        return [f"delete {function.parameters[0].name};"]
    type_name = function.result.rstrip("*")
    if [p.type for p in function.parameters] == [function.result]:
        return [f"return Copy({function.parameters[0].name});"]
    if not function.parameters:
        return [f"return new {type_name}();"]
    return ([f"auto* const created = new {type_name}();"]
            + [f"SetField<&{type_name}::{p.name}>(created, {p.name});"
               for p in function.parameters] + ["return created;"])


def body_of_accessor(one, value, function):
    member = f"&{one.name}Fields::{value.name}"
    if function.result == "void":
        if value.effect == "accepted" and one.name not in LOGGED_AT_OPEN:
            return [f"SetAccepted<{member}>(options, value, \"{value.name}\");"]
        return [f"SetField<{member}>(options, value);"]
    if value.type == "string":
        return [f"return GetText(options, {member}, size);"]
    if function.result == value.type:
        return [f"return GetField(options, {member});"]
    return [f"return static_cast<{function.result}>("
            f"GetField(options, {member}));"]


def definition(function, body):
    """A definition, in which unused parameters have no names."""
    text = "\n".join(packed(line, "  ") for line in body)
    used = set(re.findall(r"\w+", re.sub(r'"[^"]*"', "", text)))
    parameters = ", ".join(
        p.declaration(p.name in used)
        for p in function.parameters)
    head = packed(f"{function.result} {function.name}({parameters}) {{")
    return f"{head}\n{text}\n}}" if body else f"{head}}}"


def sources(table, version):
    """The text of generated.cc."""
    headers = {one.header for one in table.objects()}
    headers |= {f.header for f in table.functions(version)}
    out = [LICENCE, MADE, "", "#include \"compat/rocksdb/generated.h\"",
           "#include \"fields.h\"", "#include \"rocksdb/c.h\""]
    out += [f"#include \"compat/rocksdb/{name}\""
            for name in sorted(headers - {""})]
    out += ["", "using namespace varve::rocksdb_c;", ""]
    for group in table.groups:
        for one in group.objects:
            for value in one.fields:
                for function in accessors(one, value):
                    if holds(function.versions, version):
                        out.append(definition(function, body_of_accessor(
                            one, value, function)))
        for function in group.functions:
            if not holds(function.versions, version):
                continue
            if function.kind == "missing":
                out.append(definition(function, body_of_missing(function)))
            elif function.kind == "object":
                out.append(definition(function, body_of_object(function)))
    return "\n".join(out) + "\n"


# ---- The page ----------------------------------------------------------------

INTRODUCTION = """\
# The functions of RocksDB's C interface

<!-- Written by compat/rocksdb/generate.py from functions.txt. -->

The library of [rocksdb_c.md](rocksdb_c.md) has the {count} functions of RocksDB
11.8's `rocksdb/c.h`. They are of three kinds. Names are without `rocksdb_`.

- *Done*: the function does what RocksDB's does.
- *Values*: it creates, destroys, sets or returns options. Below, the options are
  *used*; *accepted*, which means that they change only the speed, so that they
  have no effect and `LOG` names those that were set; or they *need* a feature
  that Varve lacks. Then calls with another value than the default return "Not
  implemented".
- *Not supported*: it returns "Not implemented: Varve has no ...". If it has no
  argument for errors, it returns null or 0, and `LOG` says so once.
"""


def listed(names):
    """Names as Markdown, wrapped."""
    return textwrap.fill(", ".join(f"`{name}`" for name in names), 79,
                         initial_indent="  ", subsequent_indent="  ",
                         break_on_hyphens=False, break_long_words=False)


def by_feature(items):
    """The names of items by feature, in the order of the table."""
    features = {}
    for item in items:
        features.setdefault(item.feature, []).append(
            item.name.removeprefix("rocksdb_"))
    return features.items()


def page(table):
    """The text of docs/rocksdb_c_functions.md, of the newest version."""
    newest = list(VERSIONS)[-1]
    out = [INTRODUCTION.format(count=f"{len(table.functions(newest)):,}"),
           "| group | done | values | not supported |", "|---|--:|--:|--:|"]
    total = [0, 0, 0]
    for group in table.groups:
        kinds = [f.kind for f in group.functions if holds(f.versions, newest)]
        counts = [kinds.count("done"),
                  kinds.count("field") + kinds.count("object"),
                  kinds.count("missing")]
        if kinds:
            out.append(f"| {group.title} | " + " | ".join(map(str, counts))
                       + " |")
        total = [a + b for a, b in zip(total, counts)]
    out.append("| all | " + " | ".join(map(str, total)) + " |")
    for group in table.groups:
        missing = [f for f in group.functions
                   if f.kind == "missing" and holds(f.versions, newest)]
        if missing or group.objects:
            out += ["", f"## {group.title}", ""]
        for feature, names in by_feature(missing):
            out += [f"- Not supported, {feature}:", listed(names)]
        for one in group.objects:
            fields = [v for v in one.fields if holds(v.versions, newest)]
            feature = fields[0].feature
            if all(v.feature == feature for v in fields) and feature:
                out.append(f"- `{one.type}`, all options need {feature}.")
                continue
            for effect, text in (("used", "used"), ("accepted", "accepted"),
                                 ("refused", "needs")):
                for feature, names in by_feature(
                        v for v in fields if v.effect == effect):
                    what = f"{text} {feature}".strip()
                    out += [f"- `{one.type}`, {what}:", listed(names)]
    return "\n".join(out) + "\n"


# ---- Files -------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", choices=VERSIONS, default="11")
    parser.add_argument("--page", action="store_true",
                        help="write the page that lists the functions")
    parser.add_argument("--check", action="store_true",
                        help="fail if a file would change")
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    table = load()
    files = {"rocksdb_c_functions.md": page(table)} if arguments.page else {
        "rocksdb/c.h": header(table, arguments.version),
        "fields.h": fields_header(table),
        "generated.cc": sources(table, arguments.version)}
    for name, text in files.items():
        path = arguments.directory / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if arguments.check:
            print(f"{path} is not what functions.txt says: run {__file__}")
            return 1
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
