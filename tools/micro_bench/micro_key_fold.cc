// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of folding a key, by SIMD and by the Unicode library.

#include <string>

#include "tools/micro_bench/micro_bench.h"
#include "util/bytes/key_fold.h"

namespace varve::bench {
namespace {

void Fold(benchmark::State& state, KeyFolding folding, const char* part) {
  std::string key;
  while (key.size() < static_cast<size_t>(state.range(0))) key += part;
  for (auto _ : state) {
    Slice given = key;
    benchmark::DoNotOptimize(given);
    const FoldedKey folded(given, folding);
    benchmark::DoNotOptimize(folded.slice());
    benchmark::ClobberMemory();
  }
}

}  // namespace

void AddKeyFold() {
  for (const auto& [name, folding] :
       {std::pair("FoldAscii/kAsciiFirst", KeyFolding::kAsciiFirst),
        std::pair("FoldAscii/kUnicode", KeyFolding::kUnicode)}) {
    benchmark::RegisterBenchmark(name, Fold, folding, "K")
        ->ArgName("bytes")
        ->Arg(8)
        ->Arg(16)
        ->Arg(32)
        ->Arg(100);
  }
  // Half of it is not ASCII.
  benchmark::RegisterBenchmark("FoldGreek", Fold, KeyFolding::kAsciiFirst,
                               "Σαk ")
      ->ArgName("bytes")
      ->Arg(24);
}

}  // namespace varve::bench
