// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: no input breaks a target. Method: the seeds given (files, or folders of
// them), each as it is, cut at every length and with each byte changed in two
// ways, or at places drawn at random where there would be too many. The last
// line tells how many inputs that were.

#include <algorithm>
#include <cinttypes>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "test/fuzz/fuzz.h"
#include "test/testing/seed.h"

namespace {

using varve::test::EnvironmentInt;

class Replay {
 public:
  Replay() : rng_(varve::test::TestSeed()) {}

  void File(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string seed((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    ++files_;
    Run(seed);
    const size_t most =
        static_cast<size_t>(EnvironmentInt("VARVE_FUZZ_REPLAYS", 200));
    ForSome(seed.size(), most, [&](size_t at) { Run(seed.substr(0, at)); });
    ForSome(seed.size(), most, [&](size_t at) {
      std::string changed = seed;
      changed[at] = static_cast<char>(changed[at] ^ (1 << rng_.Below(8)));
      Run(changed);
      changed[at] = static_cast<char>(~seed[at]);
      Run(changed);
    });
  }

  void Tell() const {
    printf("%" PRIu64 " seeds, %" PRIu64 " inputs\n", files_, inputs_);
  }
  uint64_t files() const { return files_; }

 private:
  // Calls function(i) for i below count; for `most` of them if there are more.
  template <typename Function>
  void ForSome(size_t count, size_t most, Function function) {
    for (size_t i = 0; i < std::min(count, most); ++i) {
      function(count <= most ? i : static_cast<size_t>(rng_.Below(count)));
    }
  }

  void Run(const std::string& input) {
    ++inputs_;
    // A copy without spare bytes after it, so that an over-read is noticed.
    const std::vector<uint8_t> exact(input.begin(), input.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
  }

  varve::test::Rng rng_;
  uint64_t files_ = 0;
  uint64_t inputs_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Replay replay;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path path = argv[i];
    if (!std::filesystem::is_directory(path)) {
      replay.File(path);
      continue;
    }
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) replay.File(file);
  }
  replay.Tell();
  return replay.files() > 0 ? 0 : 1;
}
