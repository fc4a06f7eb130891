// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An engine of a test in which one opens what the other left.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"

namespace varve::test {

// Families of these names have keys in descending order.
inline bool IsDescending(const std::string& name) {
  return name.starts_with("descending");
}

// Ors the bytes of two strings, of which the shorter one ends with zeros.
inline std::string Or(std::string value, const std::string& operand) {
  value.resize(std::max(value.size(), operand.size()));
  for (size_t i = 0; i < operand.size(); ++i) {
    value[i] = static_cast<char>(value[i] | operand[i]);
  }
  return value;
}

struct Update {
  enum class Kind { kPut, kMerge, kDelete, kSingleDelete, kDeleteRange };

  Kind kind = Kind::kPut;
  std::string key;
  std::string value;  // The value, the operand, or the end of a range.
  std::string family = kDefaultColumnFamilyName;
};

// The options of a session.
struct Setting {
  bool read_only = false;  // The logs are kept.
  bool atomic_flush = false;
  uint64_t max_total_wal_size = 0;
  std::string merge_operator;
  // The database may have range deletions. RocksDB 7.8 splits the versions of a
  // key between two files of a level. If the first one has an older range
  // deletion of the key, its Get does not look into the second. So it only
  // reads operands by iterators, and not at all in Merge.
  bool has_ranges = false;
  std::string prefix_extractor = "nullptr";  // As text, of all families.
  // Open with the options of the newest OPTIONS file, if there is one.
  bool loads_options = false;
};

// One of the two engines, with a database open or not.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::vector<std::string> List(const std::string& path) = 0;
  virtual void Open(const std::string& path, const Setting& setting,
                    const std::vector<std::string>& names) = 0;
  virtual void Close() = 0;
  // Returns the family's id.
  virtual uint32_t Create(const std::string& name) = 0;
  virtual void Drop(const std::string& name) = 0;
  virtual uint32_t Id(const std::string& name) = 0;
  virtual void Write(const std::vector<Update>& batch, bool disable_wal) = 0;
  virtual void Flush(const std::vector<std::string>& names) = 0;
  // Writes a table for the family, by an SstFileWriter. The updates are in the
  // order of the keys, but for range deletions.
  virtual void WriteTable(const std::string& name, const std::string& file,
                          const std::vector<Update>& updates) = 0;
  // Ingests the files. With `moves`, they are gone afterwards.
  virtual void Ingest(const std::string& name,
                      const std::vector<std::string>& files, bool moves) = 0;
  // Null for all keys.
  virtual void Compact(const std::string& name, const std::string* begin,
                       const std::string* end) = 0;
  // Compacts some tables of [first, last], now or later.
  virtual void CompactSome(const std::string& name, const std::string& first,
                           const std::string& last) = 0;
  // Calls DeleteFilesInRanges for [first, last].
  virtual void DeleteFiles(const std::string& name, const std::string& first,
                           const std::string& last) = 0;
  virtual void SetOptions(
      const std::string& name,
      const std::map<std::string, std::string>& changes) = 0;
  // Returns the family's write_buffer_size in the newest OPTIONS file.
  virtual size_t StoredBufferSize(const std::string& path,
                                  const std::string& name) = 0;
  virtual const void* TakeSnapshot() = 0;
  virtual void ReleaseSnapshot(const void* snapshot) = 0;
  // At a snapshot, or null for now.
  virtual EntryList Scan(const std::string& name, const void* snapshot) = 0;
  // Backwards, but the list is in order.
  virtual EntryList ScanBackward(const std::string& name,
                                 const void* snapshot) = 0;
  // From the target to the end of its prefix.
  virtual EntryList ScanPrefix(const std::string& name,
                               const std::string& target) = 0;
  // Returns the value, or "NotFound".
  virtual std::string Get(const std::string& name, const std::string& key,
                          const void* snapshot) = 0;
};

}  // namespace varve::test
