// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A whole MANIFEST. It gives levels in order, or is refused.

#include <memory>
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
  Require(state.default_family().id == 0, "the default family comes first");
  for (const auto& family : state.families) {
    for (int level = 1; level < kNumLevels; ++level) {
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
