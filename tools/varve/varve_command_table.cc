// Varve: a key-value storage engine. MIT licence, see LICENSE.

// The commands of `varve` and their help texts. The man page in packaging/
// lists the same commands, and a test compares them. The completions for shells
// read the help texts: an option is a line with two spaces, its name and
// "=ARGUMENT", and the usage line tells whether the operands are files.

#include "tools/varve/top/varve_top.h"
#include "tools/varve/varve_backup.h"
#include "tools/varve/varve_check.h"
#include "tools/varve/varve_checkpoint.h"
#include "tools/varve/varve_command_line.h"
#include "tools/varve/varve_dump_log.h"
#include "tools/varve/varve_dump_sst.h"
#include "tools/varve/varve_entries.h"
#include "tools/varve/varve_families.h"
#include "tools/varve/varve_follow.h"
#include "tools/varve/varve_maintenance.h"
#include "tools/varve/varve_prepared.h"
#include "tools/varve/varve_scan.h"
#include "tools/varve/varve_transfer.h"

namespace varve {

namespace {

constexpr char kGetHelp[] = R"(usage: varve get --db=DIR [OPTION...] KEY

Prints the value of a key, and exits with 1 if the key is not there. Bytes
that are not visible text are printed as \xHH, and a backslash as two.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --hex                the key and the output are hexadecimal, as 0x61
  --escaped            the key is in the form of the output
  --raw                print the bytes of the value, and no line end
  --operands           print the value and the merge operands as they are
                       stored, the oldest first, a line each
  --json               print {"value":...}; bytes that are not UTF-8 as
                       {"value_hex":"FF00"}
  --ignore_case        the keys of the database are case-insensitive
  --merge_operator=OP  uint64add, stringappend, max, bytesor or bytesxor
  --ttl                values end in the times of their writes
  --open_files=N       open at most N tables at once
  --                   what follows is no option

Changes nothing and takes no lock. Beside a process that writes it shows one
moment of the database.
)";

constexpr char kPutHelp[] =
    R"(usage: varve put --db=DIR [OPTION...] KEY {VALUE | -}

Sets a key to a value, and prints OK. With - the value is what standard
input has, byte for byte, up to almost 3 GiB.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --hex                key and value are hexadecimal, as 0x61
  --escaped            \xHH is a byte, and two backslashes are one
  --create_if_missing  make the database, and the family, if there is none
  --ignore_case        the keys of the database are case-insensitive
  --ttl                values end in the times of their writes
  --accept_loss        write even if updates in damaged logs are lost by it
  --open_files=N       open at most N tables at once
  --                   what follows is no option

The value - itself is --hex 0x2D.
)";

constexpr char kMergeHelp[] =
    R"(usage: varve merge --db=DIR [OPTION...] KEY VALUE

Adds a merge operand to a key, and prints OK. Reads of the key apply it to
the value. With - as VALUE, the operand is standard input, byte for byte.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --merge_operator=OP  uint64add, stringappend, max, bytesor or bytesxor
                       (default: the one that the OPTIONS file names)
  --hex                key and operand are hexadecimal, as 0x61
  --escaped            \xHH is a byte, and two backslashes are one
  --create_if_missing  make the database, and the family, if there is none
  --ignore_case        the keys of the database are case-insensitive
  --ttl                values end in the times of their writes
  --accept_loss        write even if updates in damaged logs are lost by it
  --open_files=N       open at most N tables at once
  --                   what follows is no option

uint64add takes numbers of 8 bytes, the lowest first: --hex 0x01
0x0100000000000000 adds 1 to the key 0x01. Other sizes are refused, as is an
operator other than the one that the OPTIONS file names.
)";

constexpr char kDeleteHelp[] = R"(usage: varve delete --db=DIR [OPTION...] KEY

Removes a key, and prints OK, also if it was not there.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --hex                the key is hexadecimal, as 0x61
  --escaped            \xHH is a byte, and two backslashes are one
  --ignore_case        the keys of the database are case-insensitive
  --ttl                values end in the times of their writes
  --accept_loss        write even if updates in damaged logs are lost by it
  --open_files=N       open at most N tables at once
  --                   what follows is no option
)";

constexpr char kDeleteRangeHelp[] =
    R"(usage: varve delete-range --db=DIR [OPTION...] FROM TO

Removes all keys from FROM on and before TO, and prints OK. It costs no more
for many keys than for one; varve compact then gives their space back.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --hex                both are hexadecimal, as 0x61
  --escaped            \xHH is a byte, and two backslashes are one
  --ignore_case        the keys of the database are case-insensitive
  --ttl                values end in the times of their writes
  --accept_loss        write even if updates in damaged logs are lost by it
  --open_files=N       open at most N tables at once
  --                   what follows is no option

varve count --from=FROM --to=TO tells how many keys there are.
)";

constexpr char kScanHelp[] = R"(usage: varve scan --db=DIR [OPTION...]

Prints the entries in the order of keys, a line each, as KEY : VALUE. Bytes
that are not visible text are printed as \xHH, and a backslash as two.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --from=KEY           begin at this key
  --to=KEY             end before this key
  --prefix=KEY         only keys that begin with it
  --reverse            the last key first
  --limit=N            print at most N entries
  --keys               print the keys only
  --values             print the values only
  --hex                keys and values are hexadecimal, as 0x61
  --escaped            --from, --to and --prefix are in the output's form
  --raw                print the bytes of keys and values
  --json               print {"key":...,"value":...} a line; bytes that are
                       not UTF-8, with --hex all, as "key_hex", "value_hex"
  --ignore_case        the keys of the database are case-insensitive
  --merge_operator=OP  uint64add, stringappend, max, bytesor or bytesxor
  --ttl                values end in the times of their writes
  --timestamp          print these times first; --json: in seconds since 1970
  --start_time=S       only writes of S, in seconds since 1970, or later
  --end_time=S         only writes before S
  --open_files=N       open at most N tables at once

Changes nothing, takes no lock, and shows one moment of the database.
)";

constexpr char kCountHelp[] = R"(usage: varve count --db=DIR [OPTION...]

Prints how many keys there are, by reading all of them.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --from=KEY           begin at this key
  --to=KEY             end before this key
  --prefix=KEY         only keys that begin with it
  --hex                these three are hexadecimal, as 0x61
  --escaped            in these three, \xHH is a byte
  --json               print {"keys":...}
  --ignore_case        the keys of the database are case-insensitive
  --merge_operator=OP  uint64add, stringappend, max, bytesor or bytesxor
  --ttl                values end in the times of their writes
  --start_time=S       only writes of S, in seconds since 1970, or later
  --end_time=S         only writes before S
  --open_files=N       open at most N tables at once
  --progress           say how far it is, also if stderr is no terminal

Changes nothing and takes no lock. Beside a process that writes it counts one
moment of the database. varve stats --property=varve.estimate-num-keys
estimates the number at once.
)";

constexpr char kBatchPutHelp[] =
    R"(usage: varve batchput --db=DIR [OPTION...] [KEY VALUE]...

Sets many keys, and prints OK. Pairs of the command line take effect all
together or not at all. Without any, reads lines from standard input, each
a key, a tab and a value, and writes them in batches of a megabyte; a line
that is wrong ends it, and batches before it stay written.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --hex                keys and values are hexadecimal, as 0x61
  --escaped            \xHH is a byte, and two backslashes are one
  --create_if_missing  make the database, and the family, if there is none
  --ignore_case        the keys of the database are case-insensitive
  --ttl                values end in the times of their writes
  --accept_loss        write even if updates in damaged logs are lost by it
  --open_files=N       open at most N tables at once
  --progress           say how far it is, also if stderr is no terminal
  --                   what follows is no option

For keys with tabs and values with line ends use --hex, --escaped, or
ingest-from.
)";

constexpr char kDumpSstHelp[] = R"(usage: varve dump-sst [OPTION...] FILE

Shows what is in a table file of Varve, RocksDB or LevelDB: footer,
properties and index, or what the options say.

  --footer             the footer, and where the blocks behind the data are
  --properties         what the table says of itself
  --index              each data block's place and the end of its keys
  --blocks             each data block's compression, size and entries
  --keys               each entry: key, sequence number, kind, value
  --verify             read every block, compare checksums, the order of
                       keys and the index
  --hex                keys and values in hexadecimal, as 0x61
  --progress           say how far it is, also if stderr is no terminal

Exit code 3 if something of what was asked for is damaged; what can be
read is shown all the same.
)";

constexpr char kDumpManifestHelp[] =
    R"(usage: varve dump-manifest {--db=DIR | FILE} [OPTION...]

Shows a MANIFEST edit by edit, and then the tables of each level and column
family that the edits come to.

  --db=DIR             the database whose MANIFEST in force is shown
  --hex                keys and values in hexadecimal, as 0x61
)";

constexpr char kDumpWalHelp[] = R"(usage: varve dump-wal [OPTION...] FILE

Shows a write-ahead log record by record: the sequence number of the first
update, how many there are, the bytes, and each update with the column family
if it is not the default one. The MANIFEST beside the log tells the names. A
record at the end that was cut off is no failure.

  --hex                keys and values in hexadecimal, as 0x61
)";

constexpr char kLevelsHelp[] = R"(usage: varve levels --db=DIR [OPTION...]

Prints the tables of each level: number, bytes, key range and sequence
numbers. If there are several column families, all are printed. Reads the
MANIFEST only: what the logs hold is not in it.

  --db=DIR             the database
  --family=NAME        only this column family
  --hex                keys and values in hexadecimal, as 0x61
  --json               print {"family_id":...,"family":...,"level":...,
                       "number":...,"bytes":...,"smallest":...,"largest":...,
                       "largest_is_included":...,"smallest_sequence":...,
                       "largest_sequence":...} a table
)";

constexpr char kFamiliesHelp[] =
    R"(usage: varve families --db=DIR [OPTION...] [create NAME | drop NAME]

Lists the column families, a line each: id, name, comparator, tables and their
bytes, by the MANIFEST. Data in logs only is not counted. With create, adds an
empty family in the order of bytes; with drop, removes a family with all its
keys. Both print OK. In names, \xHH is a byte and two backslashes are one, as
in the list; --family takes them, too.

  --db=DIR             the database
  --json               print {"id":...,"name":...,"comparator":...,
                       "tables":...,"bytes":...} a line
  --create_if_missing  make the database if there is none
  --ignore_case        the keys of the database are case-insensitive
  --accept_loss        write even if updates in damaged logs are lost by it
  --open_files=N       open at most N tables at once
  --                   what follows is no option

The list takes no lock. Families whose comparator Varve does not have are
listed, but not read. A database that has one is not written to.
)";

constexpr char kPreparedHelp[] =
    R"(usage: varve prepared --db=DIR [OPTION...]

Lists the transactions that were prepared, and neither committed nor rolled
back, a line each: name, updates and their bytes. With --commit or --rollback,
ends one of them, and prints OK; exits with 1 if there is none of that name.

  --db=DIR         the database
  --commit=NAME    make the updates of that transaction visible
  --rollback=NAME  forget them
  --hex            names are hexadecimal, as 0x61
  --escaped        NAME is in the form of the output
  --json           print {"name":...,"updates":...,"bytes":...} a line; bytes
                   that are not UTF-8 as {"name_hex":"FF00",...}
  --accept_loss    write even if updates in damaged logs are lost by it
  --open_files=N   open at most N tables at once

Ask the coordinator of the transactions, such as a server's log, which of the
two is right. The list takes no lock. Transactions of RocksDB's policies
WritePrepared and WriteUnprepared are refused.
)";

constexpr char kFollowHelp[] =
    R"(usage: varve follow --db=DIR [OPTION...]

Prints the updates in the logs in their order, a line each: sequence number,
family unless it is the default one, kind, key and value. Then ends, or waits
for more. A line that begins with gap tells of updates that no log has.

  --db=DIR   the database
  --from=N   begin with the batch that has this sequence number (default: the
             oldest one there is)
  --wait     go on when more is written, until the output ends or a signal
  --once     end with what there is, which is the default
  --json     print {"sequence":...,"batch":...,"updates":...,"family":...,
             "type":...,"key":...,"value":...} a line; bytes that are not
             UTF-8 as "key_hex", "value_hex". Lines with the same "batch", of
             which there are "updates", are one batch

Changes nothing and takes no lock. Beside a process that writes, a line can
be of an update whose sync has not ended, and fails. Exits with 1 if update N
is in no log any more. The options WAL_ttl_seconds and WAL_size_limit_MB keep
logs for it.
)";

constexpr char kStatsHelp[] = R"(usage: varve stats --db=DIR [OPTION...]

Opens the database and prints its properties varve.stats (levels, sizes,
compactions) and varve.statistics (what was counted since it was opened).

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --property=NAME      print this property instead, such as varve.sstables
                       or varve.estimate-num-keys
  --json               print {"name":...,"value":...} a line, with the names of
                       the properties cfstats and varve.prometheus; with
                       --property, {"name":...,"text":...}
  --ignore_case        the keys of the database are case-insensitive
  --open_files=N       open at most N tables at once

Changes nothing and takes no lock. Beside a process that writes it shows one
moment of the database.
)";

constexpr char kTopHelp[] = R"(usage: varve top --db=DIR [OPTION...]

Shows what the process that has the database open is doing: operations per
second with their percentiles, bytes, stalls, CPU, memory, and the tables of
each level. On a terminal the view is renewed until a signal ends it.

  --db=DIR       the database
  --interval=N   seconds between two looks, over which rates and percentiles are
                 (default: 1)
  --once         print one view after an interval, and end
  --json         print an object a line, with the counts of each interval

The counters are read from the memory of the process, which executes nothing
for it. They are those of all databases that the process has open. Needs the
right to read it: root, or its user with kernel.yama.ptrace_scope=0; and the
version of Varve that the process has. Times of single reads and writes are of
one in 64.
)";

constexpr char kCheckHelp[] = R"(usage: varve check --db=DIR [OPTION...]

Looks for damage everywhere: the MANIFEST and what it says of tables; each
table's size, the checksums of all its blocks, the order of its keys; the
records of the logs; and whether the engine opens all of it. All column
families are checked. Each damaged file is named with what is wrong with it. A
note is no damage: a write that a crash cut off, a file that is left over.

  --db=DIR             the database
  --json               print {"kind":...,"file":...,"message":...} a line, with
                       the kinds damaged, refused, unreadable and note, and at
                       the end {"kind":"summary","tables":...,"bytes":...,
                       "logs":...,"records":...,"damaged":...,"refused":...,
                       "unreadable":...}
  --open_files=N       open at most N tables at once
  --progress           say how far it is, also if stderr is no terminal

Changes nothing and takes no lock. Beside a process that writes, what that
process removes in the meantime is not looked at.
Exit code 3 if there is damage, 5 if files are refused or cannot be read.
)";

constexpr char kRepairHelp[] = R"(usage: varve repair --db=DIR [OPTION...]

Rebuilds a database from all that can be read of its tables and logs. The
files that it had go to the directory lost/ in it. What had been deleted
may come back. Column families keep their names where anything tells them.
Notes give the new names of the others. Make a copy of the directory first.

  --db=DIR             the database
  --ignore_case        the keys of the database are case-insensitive
  --open_files=N       open at most N tables at once
  --progress           say how far it is, also if stderr is no terminal
)";

constexpr char kCompactHelp[] = R"(usage: varve compact --db=DIR [OPTION...]

Writes the tables anew, without what was deleted or written over.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --from=KEY           begin at this key
  --to=KEY             end at this key, which is the last
  --hex                these two are hexadecimal, as 0x61
  --escaped            in these two, \xHH is a byte
  --ignore_case        the keys of the database are case-insensitive
  --merge_operator=OP  uint64add, stringappend, max, bytesor or bytesxor
  --ttl                values end in the times of their writes
  --accept_loss        write even if updates in damaged logs are lost by it
  --open_files=N       open at most N tables at once
  --progress           say how far it is, also if stderr is no terminal
)";

constexpr char kCheckpointHelp[] =
    R"(usage: varve checkpoint --db=DIR [OPTION...] DIRECTORY

Makes a copy of the database, of all its column families, in a directory
that does not exist yet. On the same file system it shares the tables, which
costs little; they do not depend on each other.

  --db=DIR             the database
  --ignore_case        the keys of the database are case-insensitive
  --accept_loss        copy even if updates in damaged logs are missing
  --open_files=N       open at most N tables at once

Beside a process that has the database open, the copy has all writes that
this process had passed to the system, up to some point. If it changes the
database faster than it can be copied, try again. On read-only media, or
without the right to write there, nothing is written beside the copy.
)";

constexpr char kBackupHelp[] =
    R"(usage: varve backup --db=DIR --to=BACKUPS [OPTION...]

Adds a backup of the database, of all its column families, to a directory of
backups, which is made if it is missing. Tables that are there from earlier
backups are not copied again. ldb restore reads the directory, too.

  --db=DIR             the database
  --to=BACKUPS         the directory of the backups
  --keep=N             delete the oldest backups but N
  --rate=N             write at most N bytes per second
  --threads=N          copy by N threads (default: 1)
  --flush              write tables of what is in logs first
  --ignore_case        the keys of the database are case-insensitive
  --accept_loss        copy even if updates in damaged logs are missing
  --open_files=N       open at most N tables at once
  --progress           say how far it is, also if stderr is no terminal

Beside a process that has the database open, it backs up a copy by hard links,
DIR.backup-PID, which it removes. An interrupted backup is not listed, and the
next one continues it.
)";

constexpr char kRestoreHelp[] =
    R"(usage: varve restore --from=BACKUPS --db=DIR [OPTION...]

Makes a database of a backup, by default of the newest that is not damaged.
Every byte is compared with its checksum. ldb backup makes such backups, too.

  --from=BACKUPS       the directory of the backups
  --db=DIR             the directory of the database
  --id=N               the number of the backup
  --replace            remove the database that is in DIR, once the backup was
                       verified; other files are kept
  --rate=N             write at most N bytes per second
  --threads=N          copy by N threads (default: 1)
  --progress           say how far it is, also if stderr is no terminal
)";

constexpr char kBackupsHelp[] =
    R"(usage: varve backups --from=BACKUPS [OPTION...]

Lists the backups: number, date (UTC), size, number of files, and the
program's metadata. Shared files count for each backup. Exits with 3 if one
lacks files or has some of another size or, with --verify, damaged ones.

  --from=BACKUPS       the directory of the backups
  --verify             read all files, and compare their checksums
  --threads=N          read by N threads (default: 1)
  --json               print a line of JSON for each
  --progress           say how far it is, also if stderr is no terminal
)";

constexpr char kIngestFromHelp[] =
    R"(usage: varve ingest-from --db=DIR [OPTION...] FILE

Puts the entries of a dump of any size into the database; FILE may be -,
standard input. A file is read to its end first, and nothing is written if
it is damaged or cut off: exit code 3. Standard input is written as it
comes, a megabyte at a time, up to the damage.

It understands what varve export-to, ldb dump --hex and, up to RocksDB
8.6, ldb scan --hex print; the last has no end mark by which to see that
it is whole.

  --db=DIR             the database
  --family=NAME        the column family, for a dump of one (default: those
                       that the dump names, else the default one)
  --create_if_missing  make the database, and families, that are missing
  --ignore_case        the keys of the database are case-insensitive
  --ttl                values end in the times of their writes
  --accept_loss        write even if updates in damaged logs are lost by it
  --open_files=N       open at most N tables at once
  --progress           say how far it is, also if stderr is no terminal
)";

constexpr char kWriteSstHelp[] =
    R"(usage: varve write-sst [OPTION...] FILE TABLE

Makes a table of a dump of any size, for varve ingest-sst; FILE may be -,
standard input. It understands what varve ingest-from does. The entries must
be in the order of the keys, as varve export-to writes them. Otherwise, or if
the dump is damaged or cut off, there is no table.

  --ttl                end the values in the time of now, for a database
                       with a time to live
  --progress           say how far it is, also if stderr is no terminal
)";

constexpr char kIngestSstHelp[] =
    R"(usage: varve ingest-sst --db=DIR [OPTION...] TABLE...

Adds tables of varve write-sst, or of the SstFileWriter of Varve or RocksDB,
all or none, and prints OK. Their entries are newer than all that is there.
Later tables win over earlier ones.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --create_if_missing  make the database, and the family, if there is none
  --link               give the files a second name, and do not copy them
  --move               give the files a new name in the database
  --verify             verify the checksums of all blocks first
  --accept_loss        write even if updates in damaged logs are lost by it
  --open_files=N       open at most N tables at once
)";

constexpr char kExportToHelp[] =
    R"(usage: varve export-to --db=DIR [OPTION...] FILE

Writes the entries as text, a line each; FILE may be -, standard output.
The first line is "varve-dump 1", or "varve-dump 2" if lines name families.
Then come lines of key, tab, value, in which a backslash is two and all but
printable ASCII is \xHH. The last is "varve-dump-end COUNT CRC", with the
CRC-32C of the lines between. A file gets its name when all is in it. A dump
has values that are merged, and does not say by which merge operator.

  --db=DIR             the database
  --family=NAME        the column family, as varve families prints its name
                       (default: the default one)
  --all_families       all column families, in one dump
  --from=KEY           begin at this key
  --to=KEY             end before this key
  --prefix=KEY         only keys that begin with it
  --hex                these three are hexadecimal, as 0x61
  --escaped            in these three, \xHH is a byte
  --ldb                write what ldb dump --hex prints and ldb load --hex
                       reads
  --ignore_case        the keys of the database are case-insensitive
  --merge_operator=OP  uint64add, stringappend, max, bytesor or bytesxor
  --ttl                values end in the times of their writes
  --start_time=S       only writes of S, in seconds since 1970, or later
  --end_time=S         only writes before S
  --accept_loss        write even if updates in damaged logs are missing
  --open_files=N       open at most N tables at once
  --progress           say how far it is, also if stderr is no terminal

Changes nothing and takes no lock. Beside a process that writes it shows one
moment of the database.
)";

constexpr char kTraceHelp[] = R"(usage: varve trace [OPTION...] FILE

Prints what took how long in a file that db_bench --trace or a program
wrote, in Chrome's format or in OTLP's JSON, and makes a page with a flame
chart of it. OTLP may be of another program. Work for a group of writers is
counted once.

  --limit=N            print the N slowest traces (default: 3)
  --html=FILE          the page (default: FILE.html)
)";

constexpr char kHelpHelp[] = R"(usage: varve help [COMMAND]

Tells how to use a command; without one, which commands there are. The
option --help of each command does the same, and man varve tells more.

Exit codes: 0 success, 1 no such key, 2 wrong use, 3 damage, 4 database in
use, 5 other failure.
)";

constexpr Command kCommands[] = {
    {"get", 1, 1, OperandKind::kBytes,
     "db family hex escaped raw operands json ignore_case merge_operator ttl "
     "open_files",
     "print the value of a key", kGetHelp, RunGet, true},
    {"put", 2, 2, OperandKind::kBytes,
     "db family hex escaped create_if_missing ignore_case ttl accept_loss "
     "open_files",
     "set a key to a value, or to standard input", kPutHelp, RunPut,
     /*only_reads=*/false, /*reads_value=*/true},
    {"merge", 2, 2, OperandKind::kBytes,
     "db family merge_operator hex escaped create_if_missing ignore_case "
     "ttl accept_loss open_files",
     "add a merge operand to a key", kMergeHelp, RunMerge,
     /*only_reads=*/false, /*reads_value=*/true},
    {"delete", 1, 1, OperandKind::kBytes,
     "db family hex escaped ignore_case ttl accept_loss open_files",
     "remove a key", kDeleteHelp, RunDelete},
    {"delete-range", 2, 2, OperandKind::kBytes,
     "db family hex escaped ignore_case ttl accept_loss open_files",
     "remove the keys of a range", kDeleteRangeHelp, RunDeleteRange},
    {"scan", 0, 0, OperandKind::kBytes,
     "db family from to prefix reverse limit keys values hex escaped raw json "
     "ignore_case merge_operator ttl timestamp start_time end_time open_files",
     "print the entries in key order", kScanHelp, RunScan, true},
    {"count", 0, 0, OperandKind::kBytes,
     "db family from to prefix hex escaped json ignore_case merge_operator "
     "ttl start_time end_time open_files progress",
     "count the keys", kCountHelp, RunCount, true},
    {"batchput", 0, kPairsOfOperands, OperandKind::kBytes,
     "db family hex escaped create_if_missing ignore_case ttl accept_loss "
     "open_files "
     "progress",
     "set many keys, from the command line or standard input", kBatchPutHelp,
     RunBatchPut},
    {"ingest-from", 1, 1, OperandKind::kFile,
     "db family create_if_missing ignore_case ttl accept_loss open_files "
     "progress",
     "put in the entries of a text dump", kIngestFromHelp, RunIngestFrom},
    {"write-sst", 2, 2, OperandKind::kFile, "ttl progress",
     "make a table of a text dump", kWriteSstHelp, RunWriteSst},
    {"ingest-sst", 1, 9999, OperandKind::kFile,
     "db family create_if_missing link move verify accept_loss open_files",
     "add tables to a database", kIngestSstHelp, RunIngestSst},
    {"export-to", 1, 1, OperandKind::kFile,
     "db family all_families from to prefix hex escaped ldb ignore_case "
     "merge_operator ttl start_time end_time accept_loss open_files progress",
     "write the entries to a text dump", kExportToHelp, RunExportTo, true},
    {"levels", 0, 0, OperandKind::kBytes, "db family hex json",
     "print the tables of each level", kLevelsHelp, RunLevels, true},
    {"families", 0, 2, OperandKind::kFile,
     "db json create_if_missing ignore_case accept_loss open_files",
     "list, create or drop column families", kFamiliesHelp, RunFamilies},
    {"prepared", 0, 0, OperandKind::kBytes,
     "db commit rollback hex escaped json accept_loss open_files",
     "list prepared transactions, or settle one", kPreparedHelp, RunPrepared},
    {"follow", 0, 0, OperandKind::kFile, "db from wait once json",
     "print the updates in the logs, and wait for more", kFollowHelp, RunFollow,
     true},
    {"stats", 0, 0, OperandKind::kBytes,
     "db family property json ignore_case open_files",
     "print what the database says of itself", kStatsHelp, RunStats, true},
    {"top", 0, 0, OperandKind::kFile, "db interval once json",
     "watch what a process does with the database", kTopHelp, RunTop},
    {"check", 0, 0, OperandKind::kBytes, "db json open_files progress",
     "look for damage everywhere", kCheckHelp, RunCheck, true},
    {"repair", 0, 0, OperandKind::kBytes, "db ignore_case open_files progress",
     "rebuild a damaged database from what can be read", kRepairHelp,
     RunRepair},
    {"compact", 0, 0, OperandKind::kBytes,
     "db family from to hex escaped ignore_case merge_operator ttl accept_loss "
     "open_files "
     "progress",
     "drop what was deleted or written over", kCompactHelp, RunCompact},
    {"checkpoint", 1, 1, OperandKind::kFile,
     "db ignore_case accept_loss open_files", "make a copy of the database",
     kCheckpointHelp, RunCheckpoint},
    {"backup", 0, 0, OperandKind::kFile,
     "db to keep rate threads flush ignore_case accept_loss open_files "
     "progress",
     "add a backup to a directory of backups", kBackupHelp, RunBackup},
    {"restore", 0, 0, OperandKind::kFile,
     "from db id replace rate threads progress", "make a database of a backup",
     kRestoreHelp, RunRestore},
    {"backups", 0, 0, OperandKind::kFile, "from verify threads json progress",
     "list backups, and verify them", kBackupsHelp, RunBackups},
    {"dump-sst", 1, 1, OperandKind::kFile,
     "footer properties index blocks keys verify hex progress",
     "show a table file", kDumpSstHelp, RunDumpSst},
    {"dump-manifest", 0, 1, OperandKind::kFileOrDb, "db hex",
     "show a MANIFEST, edit by edit", kDumpManifestHelp, RunDumpManifest, true},
    {"dump-wal", 1, 1, OperandKind::kFile, "hex",
     "show a write-ahead log, record by record", kDumpWalHelp, RunDumpWal},
    {"trace", 1, 1, OperandKind::kFile, "limit html",
     "show what took how long in a trace", kTraceHelp, RunTrace},
    {"help", 0, 1, OperandKind::kFile, "", "tell how to use a command",
     kHelpHelp, RunHelp},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

const Command* FindCommand(const std::string& name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

}  // namespace varve
