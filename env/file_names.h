// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The names of the files in a database directory, and CURRENT, the file that
// names the current MANIFEST. A file number is unique among all kinds of files
// of one directory.
//
// Thread-safety: functions without state.

#include <cstdint>
#include <string>
#include <vector>

#include "varve/env.h"
#include "varve/status.h"

namespace varve {

enum class FileKind : uint8_t {
  kWal,           // 000007.log
  kTable,         // 000007.sst
  kLevelDbTable,  // 000007.ldb
  kBlob,          // 000007.blob, known so that it can be refused
  kManifest,      // MANIFEST-000007
  kCurrent,       // CURRENT
  kLock,          // LOCK
  kInfoLog,       // LOG, LOG.old, LOG.old.<microseconds>
  // 000007.dbtmp, 000007.log.dbtmp, OPTIONS-000007.dbtmp, 000007.sst.trash
  kTemp,
  kIdentity,  // IDENTITY
  kOptions,   // OPTIONS-000007
};

// No database reaches this number. A file with a higher number is not the
// engine's own.
constexpr uint64_t kMaxFileNumber = uint64_t{1} << 62;
// The numbers that must be free below it before a database is written to, so
// that no process creates files which the next one refuses.
constexpr uint64_t kSpareFileNumbers = uint64_t{1} << 32;

// Classifies a directory entry. Sets *number to the number in the name (for an
// old info log, its microseconds), or 0 if the name has none. Returns false,
// with the outputs unchanged, for a name that the engine would not create, such
// as one with too few digits (7.log, MANIFEST-5), or with a number of more than
// 64 bits.
bool ParseFileName(const std::string& name, uint64_t* number, FileKind* type);

std::string WalFileName(const std::string& directory, uint64_t number);
std::string TableFileName(const std::string& directory, uint64_t number);
std::string LevelDbTableFileName(const std::string& directory, uint64_t number);
std::string ManifestFileName(const std::string& directory, uint64_t number);
std::string OptionsFileName(const std::string& directory, uint64_t number);
std::string TempFileName(const std::string& directory, uint64_t number);
std::string CurrentFileName(const std::string& directory);
std::string LockFileName(const std::string& directory);
std::string IdentityFileName(const std::string& directory);
std::string InfoLogFileName(const std::string& directory);
std::string OldInfoLogFileName(const std::string& directory, uint64_t time_us);

// Sorts the names of old info logs, the oldest first, by their dates. Dates
// later than `now_us` come from a wall clock that was set back since. They
// count as older than all others.
void SortOldInfoLogs(uint64_t now_us, std::vector<std::string>* names);

// Returns the directory part of `path`, or "." if it has none.
std::string ParentDirectory(const std::string& path);

// Creates a missing directory and makes its name durable, so that no power cut
// removes it with the files that will be synced in it. For a directory that
// does not contain files of the engine yet. Returns InvalidArgument if it is
// missing and `create_if_missing` is false.
Status MakeSafeDirectory(Env* env, const std::string& path,
                         bool create_if_missing);

// Makes CURRENT name that MANIFEST, atomically and durably. The MANIFEST and
// its name must already be durable. After OK, a crash cannot bring the previous
// one back. After an error CURRENT names the old or the new one. It still names
// the old one if *may_be_new is false then; `may_be_new` may be null.
// `handle` is the open `directory`; not null.
Status SetCurrentFile(Env* env, const std::string& directory, Directory* handle,
                      uint64_t manifest_number, bool* may_be_new = nullptr);

// Reads the name of the current MANIFEST, without the directory. Returns
// NotFound if there is no CURRENT. Returns Corruption if it holds anything but
// one line with the name of a MANIFEST.
Status ReadCurrentFile(Env* env, const std::string& directory,
                       std::string* manifest_name);

}  // namespace varve
