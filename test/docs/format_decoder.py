# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Decodes what Varve stores, by docs/format.md alone.

All tags, names, types and texts come from the tables of that page. The code has
only what the page says in its sentences: framing, varints, checksums and the
form of a block. It shares no code with the engine.
"""

import re
from pathlib import Path


class FormatError(Exception):
    """The bytes are not what the page says."""


def require(condition, what):
    if not condition:
        raise FormatError(what)


class Page:
    """The tables and examples of docs/format.md."""

    def __init__(self, text):
        self.text = text
        self.tables = {}
        for name, body in re.findall(
                r"^<!-- table: (\w+) -->\n((?:\|.*\n)+)", text, re.MULTILINE):
            rows = [[cell.strip() for cell in line.strip("|\n").split("|")]
                    for line in body.splitlines()]
            self.tables[name] = rows[2:]
        self.examples = {
            name: bytes.fromhex(re.sub(r"\s+", "", body))
            for name, body in re.findall(
                r"^<!-- example: (.*) -->\n```hex\n((?:[^`]|\n)*?)^```", text,
                re.MULTILINE)}

    @classmethod
    def read(cls, root):
        return cls((Path(root) / "docs/format.md").read_text("utf-8"))

    def fields(self, table):
        """[(name, type)] of a table of fields."""
        return [(code(row[0]), code(row[1])) for row in self.tables[table]]

    def tags(self, table):
        """{tag: (name, row)}."""
        return {int(row[0]): (row[1], row) for row in self.tables[table]}

    def tag(self, table, name):
        return next(tag for tag, (known, _) in self.tags(table).items()
                    if known == name)


def code(cell):
    """The text of a cell that is in backquotes, or the cell."""
    return cell.strip("`")


def field_list(cell):
    """[(name, type)] of a list such as `lp key, lp value`, or of none."""
    return [(name, kind) for kind, name in
            (part.split(" ", 1) for part in code(cell).split(", ")
             if part != "none")]


# ---- Integers and checksums --------------------------------------------------


class Bytes:
    """Bytes that are consumed from the front."""

    def __init__(self, data, offset=0):
        self.data = data
        self.offset = offset

    def __bool__(self):
        return self.offset < len(self.data)

    def take(self, size):
        require(self.offset + size <= len(self.data), "the bytes end too early")
        self.offset += size
        return self.data[self.offset - size:self.offset]

    def varint(self, most):
        value = 0
        for index in range(most):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise FormatError("a varint does not end")

    def value(self, kind):
        if kind in ("u8", "u16", "u32", "u64"):
            return int.from_bytes(self.take(int(kind[1:]) // 8), "little")
        if kind in ("v32", "v64"):
            return self.varint(5 if kind == "v32" else 10)
        if kind == "lp":
            return self.take(self.varint(5))
        if kind == "rest":
            return self.take(len(self.data) - self.offset)
        size = re.fullmatch(r"(\d+) bytes", kind)
        require(size, f"no such type: {kind}")
        return self.take(int(size[1]))

    def record(self, fields):
        return {name: self.value(kind) for name, kind in fields}


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# ---- Logs ---------------------------------------------------------------------

BLOCK_SIZE = 32768
HEADER_SIZE = 7


def log_records(page, data):
    """[(record, offset of its end)] of a log or MANIFEST."""
    kinds = {name: kind for kind, (name, _) in page.tags("kinds").items()}
    fields = page.fields("fragment")[:-1]
    records, parts = [], None
    position = 0
    while True:
        left = BLOCK_SIZE - position % BLOCK_SIZE
        if left < HEADER_SIZE:
            require(not any(data[position:position + left]), "bytes at a block's end")
            position += left
        if position + HEADER_SIZE > len(data):
            break
        header = Bytes(data, position).record(fields)
        if header["kind"] == kinds["unwritten"] and header["length"] == 0:
            require(not any(data[position:]), "a record after unwritten space")
            break
        require(HEADER_SIZE + header["length"] <= left, "crosses a block")
        end = position + HEADER_SIZE + header["length"]
        payload = data[position + HEADER_SIZE:end]
        require(len(payload) == header["length"], "cut off")
        require(masked(crc32c(bytes([header["kind"]]) + payload)) ==
                header["crc"], "checksum")
        kind = header["kind"]
        if kind in (kinds["full"], kinds["first"]):
            require(parts is None, "a record within another one")
            parts = []
        require(parts is not None, "a record without its first part")
        require(kind in kinds.values(), f"kind {kind}")
        parts.append(payload)
        position = end
        if kind in (kinds["full"], kinds["last"]):
            records.append((b"".join(parts), position))
            parts = None
    require(parts is None, "a record without its last part")
    return records


def batch(page, record):
    """(sequence, [(name, fields, sequence or None)]) of a write batch."""
    header = Bytes(record).record(page.fields("batch"))
    tags = page.tags("batch_tags")
    body = Bytes(header["records"])
    updates = []
    sequence = header["sequence"]
    while body:
        tag = body.value("u8")
        require(tag in tags, f"tag {tag} of a batch")
        name, row = tags[tag]
        counts = row[3] == "yes"
        updates.append((name, body.record(field_list(row[2])),
                        sequence if counts else None))
        sequence += counts
    require(sequence == header["sequence"] + header["count"], "count of a batch")
    return header["sequence"], updates


def predecessor(page, record):
    """{number, size, log, sequence} of a predecessor record; None for others."""
    sequence, updates = batch(page, record)
    if [name for name, _, _ in updates] != ["log data"]:
        return None
    rows = page.tables["predecessor"]
    blob = Bytes(updates[0][1]["blob"])
    found = blob.record(page.fields("predecessor"))
    prefix = re.search(r"`(.*)`", rows[0][2])[1].encode()
    if found["prefix"] != prefix:
        return None
    require(not blob, "more after a predecessor")
    return {"number": found["number"], "size": found["size"],
            "log": found["log"], "sequence": sequence}


# ---- MANIFEST -------------------------------------------------------------------


def custom_fields(page, body):
    tags = page.tags("custom_tags")
    found = {}
    while (tag := body.value("v32")) != 1:
        contents = Bytes(body.value("lp"))
        require(tag in tags or not tag & 64, f"custom tag {tag}")
        if tag in tags:
            found[tags[tag][0]] = contents.value("v64")
            require(not contents, f"more in custom tag {tag}")
    return found


def edit(page, record):
    """[(name, fields)] of an edit, in order."""
    tags = page.tags("edit_tags")
    body = Bytes(record)
    fields = []
    while body:
        tag = body.value("v32")
        require(tag in tags, f"tag {tag} of an edit")
        name, row = tags[tag]
        listed = field_list(row[2].replace(", custom fields", ""))
        values = body.record(listed)
        if "custom fields" in row[2]:
            values["custom"] = custom_fields(page, body)
        if name in ("end of the logs", "end of the tables"):
            values["sequence"] = Bytes(values["sequence"]).value("v64")
        fields.append((name, values))
    return fields


class Database:
    """A directory."""

    def __init__(self, page, path):
        self.page = page
        self.path = Path(path)

    def manifest(self):
        """The edits of the MANIFEST."""
        name = (self.path / "CURRENT").read_text()
        require(name.endswith("\n"), "CURRENT")
        data = (self.path / name.strip()).read_bytes()
        return [edit(self.page, record)
                for record, _ in log_records(self.page, data)]

    def find(self, field):
        """[(number of the edit, contents)] of each field of that name."""
        return [(number, values)
                for number, fields in enumerate(self.manifest())
                for name, values in fields if name == field]

    def logs(self):
        """{number: [(record, end)]}."""
        return {int(path.stem): log_records(self.page, path.read_bytes())
                for path in sorted(self.path.glob("*.log"))}

    def table(self, number):
        return Table(self.page, (self.path / f"{number:06}.sst").read_bytes())


# ---- Tables ---------------------------------------------------------------------


class Table:
    """The metaindex of a table, and the blocks that it names."""

    FOOTER_SIZE = 53
    MAGIC = 0x88E241B785F4CFF7

    def __init__(self, page, data):
        self.page = page
        self.data = data
        footer = Bytes(data[-self.FOOTER_SIZE:])
        handles = footer.record(page.fields("footer"))
        rest = Bytes(footer.data[41:])
        self.version = rest.value("u32")
        require(rest.value("u64") == self.MAGIC, "magic number")
        self.metaindex = {
            name.decode(): Bytes(handle).record([("offset", "v64"),
                                                 ("size", "v64")])
            for name, handle in self.entries(handles["metaindex_offset"],
                                             handles["metaindex_size"])}

    def block(self, name):
        handle = self.metaindex[name]
        end = handle["offset"] + handle["size"]
        require(self.data[end] == 0, "a compressed block")
        return self.data[handle["offset"]:end]

    def entries(self, offset, size):
        body = self.data[offset:offset + size]
        restarts = int.from_bytes(body[-4:], "little")
        bytes_ = Bytes(body[:len(body) - 4 - 4 * restarts])
        key = b""
        while bytes_:
            sizes = bytes_.record(self.page.fields("block_entry"))
            key = key[:sizes["shared"]] + bytes_.take(sizes["unshared"])
            yield key, bytes_.take(sizes["value_size"])

    def properties(self):
        handle = self.metaindex["rocksdb.properties"]
        return {name.decode(): value for name, value in
                self.entries(handle["offset"], handle["size"])}

    def custom_filters(self):
        """{name of the policy: contents}."""
        prefix = code(self.page.tables["filter_names"][0][0])
        return {name[len(prefix):]: self.block(name)
                for name in self.metaindex if name.startswith(prefix)}


# ---- Directories of a catalog, and dump files --------------------------------------


def database_name(page, directory):
    """The name of a catalog's database; None for other directories."""
    prefix, plain, _ = map(code, page.tables["catalog_names"][0])
    if not directory.startswith(prefix):
        return None
    name = b""
    rest = directory[len(prefix):]
    while rest:
        size = 3 if rest[0] == "%" else 1
        require(size == 3 or rest[0] in plain, f"not plain: {rest[0]}")
        name += bytes.fromhex(rest[1:3]) if size == 3 else rest[0].encode()
        rest = rest[size:]
    return name.decode("utf-8")


def dump_entries(page, data):
    """[(key, value)] of a dump file."""
    first, _, last = (code(row[1]) for row in page.tables["dump_lines"])
    lines = data.split(b"\n")
    require(lines.pop() == b"", "no newline at the end")
    require(lines[0].decode() == first, "first line")

    def unescaped(text):
        return re.sub(rb"\\(\\|x([0-9A-Fa-f]{2}))",
                      lambda m: bytes.fromhex(m[2].decode()) if m[2] else b"\\",
                      text)

    body = lines[1:-1]
    crc = crc32c(b"".join(line + b"\n" for line in body))
    require(lines[-1].decode() == last.replace("COUNT", str(len(body))).replace(
        "CRC", f"{crc:08x}"), "last line")
    return [tuple(unescaped(text) for text in line.split(b"\t"))
            for line in body]
