// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of folding a key, by SIMD and by the Unicode library.
//
//   micro_bench --benchmark_filter=Fold --benchmark_repetitions=7
//       --benchmark_enable_random_interleaving=true
//       --benchmark_report_aggregates_only=true

#include <benchmark/benchmark.h>

#include <string>

#include "util/bytes/key_fold.h"

namespace varve {
namespace {

template <KeyFolding kFolding>
void BM_FoldAscii(benchmark::State& state) {
  const std::string key(static_cast<size_t>(state.range(0)), 'K');
  for (auto _ : state) {
    Slice given = key;
    benchmark::DoNotOptimize(given);
    const FoldedKey folded(given, kFolding);
    benchmark::DoNotOptimize(folded.slice());
    benchmark::ClobberMemory();
  }
}

// Half of it is not ASCII.
template <KeyFolding kFolding>
void BM_FoldGreek(benchmark::State& state) {
  std::string key;
  while (key.size() < static_cast<size_t>(state.range(0))) key += "Σαk ";
  for (auto _ : state) {
    Slice given = key;
    benchmark::DoNotOptimize(given);
    const FoldedKey folded(given, kFolding);
    benchmark::DoNotOptimize(folded.slice());
    benchmark::ClobberMemory();
  }
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("bytes")->Arg(8)->Arg(16)->Arg(32)->Arg(100);
}

BENCHMARK(BM_FoldAscii<KeyFolding::kAsciiFirst>)->Apply(Sizes);
BENCHMARK(BM_FoldAscii<KeyFolding::kUnicode>)->Apply(Sizes);
BENCHMARK(BM_FoldGreek<KeyFolding::kAsciiFirst>)->ArgName("bytes")->Arg(24);

}  // namespace
}  // namespace varve
