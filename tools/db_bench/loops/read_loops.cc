// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Loops that only read, and mixgraph.

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tools/db_bench/loops/loop_parts.h"
#include "tools/db_bench/workload_loops.h"

namespace varve {

namespace {

// The keys of mixgraph, by how hot they are.
class HotKeys {
 public:
  HotKeys(const MixConfig& mix, uint64_t entries, uint64_t seed)
      : mix_(mix), entries_(entries) {
    if (mix.range_a == 0 && mix.range_b == 0 && mix.range_c == 0 &&
        mix.range_d == 0) {
      return;
    }
    const auto ranges = static_cast<uint64_t>(mix.ranges);
    double sum = 0;
    for (uint64_t i = 0; i < ranges; ++i) {
      const auto x = static_cast<double>(i + 1);
      sum += std::max(0.0, mix.range_a * std::exp(mix.range_b * x) +
                               mix.range_c * std::exp(mix.range_d * x));
      ends_.push_back(sum);
    }
    if (sum <= 0) ends_.clear();
    // The hot ranges lie anywhere among the others.
    if (!ends_.empty()) {
      places_ = std::make_unique<Permutation>(ranges, seed);
    }
  }

  // Returns the number of a key, for a random number in [0, 1).
  uint64_t At(double part, Random* random) const {
    if (mix_.key_a == 0 || mix_.key_b == 0) return random->Uniform(entries_);
    if (ends_.empty()) return Scatter(Rank(part)) % entries_;
    const double wanted = part * ends_.back();
    const size_t range = static_cast<size_t>(
        std::upper_bound(ends_.begin(), ends_.end() - 1, wanted) -
        ends_.begin());
    const double begin = range == 0 ? 0 : ends_[range - 1];
    const double inside = (wanted - begin) / (ends_[range] - begin);
    const uint64_t size = std::max<uint64_t>(1, entries_ / ends_.size());
    const uint64_t place = places_->At(range) * size;
    return (place + Scatter(Rank(inside)) % size) % entries_;
  }

 private:
  // The hotness rank of a key, for a part of all accesses: the inverse of
  // a * x^b.
  uint64_t Rank(double part) const {
    const double rank = std::ceil(std::pow(part / mix_.key_a, 1 / mix_.key_b));
    return rank >= 0 && rank < 9e18 ? static_cast<uint64_t>(rank) : 0;
  }
  // The same place for the same rank, so that hot keys are hot throughout.
  static uint64_t Scatter(uint64_t rank) { return Random(rank).Next(); }

  const MixConfig& mix_;
  const uint64_t entries_;
  std::vector<double> ends_;
  std::unique_ptr<Permutation> places_;
};

// The inverse of the generalized Pareto distribution, as a whole number.
uint64_t Pareto(double part, double theta, double k, double sigma) {
  const double value =
      std::ceil(k == 0 ? theta - sigma * std::log(part)
                       : theta + sigma * (std::pow(part, -k) - 1) / k);
  return value >= 0 && value < 9e18 ? static_cast<uint64_t>(value) : 0;
}

}  // namespace

void NewIteratorLoop(LoopContext* context, LoopThread* thread) {
  const std::unique_ptr<EngineCursor> cursor = thread->session->NewCursor();
  uint64_t turn = 0;
  Repeat(context, thread, [&]() -> uint64_t {
    cursor->SelectFamily(FamilyOf(context->config, turn++));
    cursor->Renew();
    return 1;
  });
}

void ApproximateSizeLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  std::string begin;
  Repeat(context, thread, [&]() -> uint64_t {
    const uint64_t number = numbers.Next();
    SetKey(*context, thread, number);
    begin = thread->key;
    SetKey(*context, thread, number + context->config.entries / 100 + 1);
    uint64_t bytes = 0;
    thread->status =
        thread->session->ApproximateSize(begin, thread->key, &bytes);
    return thread->status.ok() ? 1 : 0;
  });
}

void OperandsLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  Repeat(context, thread, [&]() -> uint64_t {
    SetKey(*context, thread, numbers.Next());
    const Lookup lookup =
        thread->session->GetOperands(thread->key, [](const Slice&) {});
    if (lookup == Lookup::kError) {
      thread->status = thread->session->error();
      return 0;
    }
    thread->found += lookup == Lookup::kFound ? 1 : 0;
    return 1;
  });
  thread->lookups = thread->operations;
}

void FillSeekSeqLoop(LoopContext* context, LoopThread* thread) {
  WriteLoop(context, thread);
  if (!thread->status.ok()) return;
  thread->bytes = 0;
  if (thread->latency_ns != nullptr) thread->latency_ns->Clear();
  const WorkloadConfig& config = context->config;
  const std::unique_ptr<EngineCursor> cursor = thread->session->NewCursor();
  cursor->Renew();
  const uint64_t entries = context->operations;
  uint64_t number = 0;
  Repeat(context, thread, [&]() -> uint64_t {
    SetKey(*context, thread, number++ % entries);
    bool valid = cursor->Seek(thread->key);
    thread->found += valid && cursor->key == Slice(thread->key) ? 1 : 0;
    for (uint64_t i = 0; i < config.seek_nexts && valid; ++i) {
      valid = config.reverse ? cursor->Prev() : cursor->Next();
    }
    if (!valid) thread->status = cursor->status();
    return thread->status.ok() ? 1 : 0;
  });
  thread->lookups = thread->operations;
}

void MixGraphLoop(LoopContext* context, LoopThread* thread) {
  const WorkloadConfig& config = context->config;
  const MixConfig& mix = config.mix;
  // All threads agree on which keys are hot.
  const HotKeys keys(mix, config.entries, config.seed);
  const double all = mix.get_ratio + mix.put_ratio + mix.seek_ratio;
  const double gets = mix.get_ratio / all;
  const double puts = gets + mix.put_ratio / all;
  const auto most_bytes = static_cast<uint64_t>(mix.max_value_bytes);
  const std::unique_ptr<EngineCursor> cursor = thread->session->NewCursor();
  constexpr uint64_t kParts = uint64_t{1} << 53;
  const auto operation = [&]() -> uint64_t {
    const double part =
        static_cast<double>(1 + thread->random.Uniform(kParts)) /
        static_cast<double>(kParts + 1);
    const double kind = static_cast<double>(thread->random.Uniform(kParts)) /
                        static_cast<double>(kParts);
    const uint64_t number = keys.At(part, &thread->random);
    SetKey(*context, thread, number);
    if (kind < gets) {
      ++thread->mix[0];
      Slice value;
      return Read(thread, &value) ? 1 : 0;
    }
    if (kind < puts) {
      ++thread->mix[1];
      uint64_t bytes = std::max<uint64_t>(
          10, Pareto(part, mix.value_theta, mix.value_k, mix.value_sigma));
      if (bytes > most_bytes) bytes %= most_bytes;
      return Write(thread, thread->values.Next(bytes)) ? 1 : 0;
    }
    ++thread->mix[2];
    const uint64_t length =
        Pareto(part, mix.scan_theta, mix.scan_k, mix.scan_sigma) %
        static_cast<uint64_t>(mix.max_scan);
    cursor->SelectFamily(FamilyOf(config, number));
    cursor->Renew();
    bool valid = cursor->Seek(thread->key);
    for (uint64_t i = 0; i < length && valid; ++i) {
      thread->bytes += cursor->key.size() + cursor->value.size();
      valid = cursor->Next();
    }
    if (!valid) thread->status = cursor->status();
    return thread->status.ok() ? 1 : 0;
  };
  if (config.mix_sine.interval.count() == 0) {
    Repeat(context, thread, operation);
    return;
  }
  const auto rate_of = [&](double ratio) {
    return [&, ratio](double seconds) {
      const SineRate& sine = config.mix_sine;
      // As far off as half of the sine's height.
      const double noise =
          (static_cast<double>(thread->random.Uniform(kParts)) /
               static_cast<double>(kParts) -
           0.5) *
          sine.a * config.mix_noise;
      return std::max(1.0, ratio / all * (sine.At(seconds) + noise));
    };
  };
  Pacer reads(rate_of(mix.get_ratio + mix.seek_ratio), config.mix_sine.interval,
              context->threads);
  Pacer writes(rate_of(mix.put_ratio), config.mix_sine.interval,
               context->threads);
  // relaxed: a thread that ends a little later does no harm.
  const auto wanted = [context] {
    return !context->stop.load(std::memory_order_relaxed);
  };
  Repeat(context, thread, operation, [&] {
    const bool read = reads.Wait(thread->mix[0] + thread->mix[2], wanted);
    return writes.Wait(thread->mix[1], wanted) || read;
  });
}

}  // namespace varve
