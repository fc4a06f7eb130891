// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The OPTIONS files of an open database.
//
// A file is written under a temporary name, synced and renamed, so that it is
// never truncated. The directory is not synced: after a power failure, the file
// before the newest one may be the newest, which the next Open corrects.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "db/option_files/options_document.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: thread-compatible.
class OptionsFiles {
 public:
  OptionsFiles(Env* env, std::string directory)
      : env_(env), directory_(std::move(directory)) {}

  // Sets the numbers of the files that the directory has.
  void Found(std::vector<uint64_t> numbers);

  // Writes the document, with what the newest file has of other options, to a
  // file with the number that `new_number` returns. Does nothing if the newest
  // file has the same text. A damaged file is ignored. Writes nothing if the
  // newest file cannot be read.
  Status Write(const OptionsDocument& document,
               const std::function<uint64_t()>& new_number);

  // Removes all but the newest two files. The next call tries again to remove
  // those that could not be.
  void RemoveOld();

  // Sets *text to the document's, with what the newest file has of other
  // options.
  Status GetText(const OptionsDocument& document, std::string* text) const;
  // Returns the newest file's number, or 0 if there is none.
  uint64_t newest() const { return numbers_.empty() ? 0 : numbers_.back(); }

  // Removes the files if the newest one does not have exactly the document's
  // families. RocksDB's tools would refuse the database because of it. Removes
  // nothing if it cannot be read.
  Status RemoveUnlessOf(const OptionsDocument& document);

 private:
  std::string PathOf(uint64_t number) const;
  // As GetText. Sets *newest_text to the newest file's.
  Status Merge(const OptionsDocument& document, std::string* text,
               std::string* newest_text) const;
  Status WriteFile(const std::string& text, uint64_t number);
  // Removes all files but the newest `count`.
  Status Keep(size_t count);

  Env* const env_;
  const std::string directory_;
  std::vector<uint64_t> numbers_;  // The files', rising.
};

}  // namespace varve
