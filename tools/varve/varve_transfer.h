// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The commands of `varve` that turn a database into text and back.
//
// A dump is ASCII text. Its first line is "varve-dump 1"; then comes a line
// for each entry, key and value with a tab between them; and at last
// "varve-dump-end COUNT CRC": how many entries there are, and the CRC-32C of
// their lines with all line ends, as eight hexadecimal digits. In keys and
// values a backslash is two, and a byte that is no printable ASCII is \xHH. An
// entry has a tab, the other two lines have none.
//
// The lines of `ldb dump --hex` ("0x61 ==> 0x62") and `ldb scan --hex`
// ("0x61 : 0x62") are understood as well; of the first, the last line has the
// count.

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunExportTo(Session* session);
Status RunIngestFrom(Session* session);

}  // namespace varve
