// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A whole MANIFEST. It gives column families that differ in id and name, have
// levels in order, and share no table, or it is refused.

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "db/version/manifest_reader.h"
#include "env/file_names.h"
#include "test/fuzz/fuzz.h"
#include "varve/comparator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  static const InternalKeyComparator comparator(BytewiseComparator());
  const std::unique_ptr<Env> env = NewMemoryEnv(Env::Default());
  const auto write = [&](const Slice& bytes, const char* name) {
    Require(WriteStringToFile(env.get(), bytes, name, false).ok(), "a file");
  };
  Require(env->CreateDirIfMissing("/db").ok(), "a directory");
  write("MANIFEST-000005\n", "/db/CURRENT");
  write(Bytes(data, size), "/db/MANIFEST-000005");
  ManifestState state;
  if (!ReadManifest(env.get(), "/db", ForAllFamilies(&comparator), &state)
           .ok()) {
    return 0;
  }
  Require(state.max_column_family <= kMaxColumnFamilyId, "no id is too large");
  Require(state.default_family().id == 0, "the default family comes first");
  std::set<std::string> names;
  std::set<uint64_t> tables;
  uint32_t last_id = 0;
  for (const auto& family : state.families) {
    Require(family->id == 0 || family->id > last_id, "ids increase");
    last_id = family->id;
    Require(last_id <= state.max_column_family, "no id is above the maximum");
    Require(names.insert(family->name).second, "no name is there twice");
    Require(state.FindFamily(family->id) == family.get(), "an id finds it");
    Require(state.FindFamily(family->name) == family.get(), "a name finds it");
    for (const auto& files : family->levels) {
      for (const FileMetaData* file : files) {
        Require(tables.insert(file->number).second, "no table is there twice");
        Require(file->number < state.next_file_number, "its number was given");
      }
    }
    for (size_t level = 1; level < family->levels.size(); ++level) {
      const auto& files = family->levels[level];
      for (size_t i = 1; i < files.size(); ++i) {
        Require(
            comparator.Compare(files[i - 1]->largest, files[i]->smallest) < 0,
            "the files of a level do not overlap");
      }
    }
  }
  return 0;
}
