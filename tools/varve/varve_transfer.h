// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The commands of `varve` that convert a database to text and back.
//
// A dump is ASCII text. The first line is "varve-dump 1". Then each entry has a
// line with its key, a tab, and its value. The last line is "varve-dump-end
// COUNT CRC": the number of entries, and the CRC-32C of their lines with all
// newlines, as eight hexadecimal digits. In keys and values, two backslashes
// stand for one, and \xHH for a byte that is not printable ASCII. Only the
// lines of entries have a tab.
//
// A dump of several column families, or of one that is not the default one,
// begins with "varve-dump 2". Before the entries of each family, the line
// "varve-dump-family COMPARATOR NAME" tells its order and its name, both in the
// form of values, with \x20 for a space in the comparator's. The count is of
// entries, and the CRC is also of these lines.
//
// The commands also read the lines of `ldb dump --hex` ("0x61 ==> 0x62") and
// `ldb scan --hex` ("0x61 : 0x62"). The last line of the former has the count.

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunExportTo(Session* session);
Status RunIngestFrom(Session* session);
// From a dump to a table, and from tables into a database.
Status RunWriteSst(Session* session);
Status RunIngestSst(Session* session);

}  // namespace varve
