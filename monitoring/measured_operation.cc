// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/measured_operation.h"

#include <atomic>
#include <utility>

namespace varve {

namespace {

// Distances between two operations of the sample are uniform over [1, 127]: 64
// on average.
constexpr uint32_t kMaxDistance = 127;

// Marsaglia's xorshift generator with shifts 13, 17, 5. Never 0.
uint32_t NextRandom(uint32_t random) {
  random ^= random << 13;
  random ^= random >> 17;
  return random ^ random << 5;
}

uint32_t NewSeed() {
  static std::atomic<uint32_t> threads{0};
  // relaxed: only that threads differ counts.
  const uint32_t n = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint32_t seed = n * 0x9e3779b9u;
  return seed != 0 ? seed : 1;
}

// Advances by the operations since the last call. Returns true if this one is
// in the sample. A thread's first operation never is, since it is slow for
// other reasons.
bool TakeSample(ThreadMeasures* t) {
  const bool is_first = t->random == 0;
  if (is_first) t->random = NewSeed();
  t->sample_countdown -= static_cast<int32_t>(t->countdown_begin);
  if (t->sample_countdown > 0) return false;
  t->random = NextRandom(t->random);
  t->sample_countdown = static_cast<int32_t>(t->random % kMaxDistance + 1);
  return !is_first;
}

template <typename Struct>
std::string ListNumbers(
    const Struct& numbers,
    std::initializer_list<std::pair<const char*, uint64_t Struct::*>> fields) {
  std::string text;
  for (const auto& [name, field] : fields) {
    if (numbers.*field == 0) continue;
    if (!text.empty()) text += ", ";
    text += std::string(name) + " = " + std::to_string(numbers.*field);
  }
  return text;
}

}  // namespace

constinit thread_local ThreadMeasures thread_measures;

MeasuredOperation::MeasuredOperation(StatisticsImpl* statistics,
                                     HistogramType histogram, Env* env)
    : statistics_(statistics), histogram_(histogram), env_(env) {
  ThreadMeasures& t = thread_measures;
  t.countdown_begin -= t.countdown;  // It may run before its turn.
  const bool is_of_sample = TakeSample(&t);
  const bool all = statistics != nullptr && statistics->times_all();
  chosen_ = statistics != nullptr && (is_of_sample || all);
  t.countdown_begin =
      all || PerfCounts() ? 1 : static_cast<uint32_t>(t.sample_countdown);
  t.countdown = t.countdown_begin;
  if (chosen_ && statistics->measures(histogram)) start_ns_ = env->NowNanos();
}

MeasuredOperation::~MeasuredOperation() {
  if (start_ns_ == 0) return;
  statistics_->Record(histogram_, env_->NowNanos() - start_ns_);
}

TimedMutexLock::TimedMutexLock(Mutex* mutex, StatisticsImpl* statistics,
                               Env* env)
    : mutex_(mutex) {
  if (mutex->TryLock()) return;
  const HistogramTimer timer(statistics, HistogramType::kDbMutexWait, env);
  const bool is_timed = thread_measures.perf_level == PerfLevel::kEnableTime;
  const uint64_t start_ns = is_timed ? env->NowNanos() : 0;
  mutex->Lock();
  if (is_timed) {
    thread_measures.perf.db_mutex_lock_nanos += env->NowNanos() - start_ns;
  }
}

void SetPerfLevel(PerfLevel level) {
  ThreadMeasures& t = thread_measures;
  t.perf_level = level;
  // The next operation is examined, and decides how to continue.
  t.countdown_begin -= t.countdown - 1;
  t.countdown = 1;
}

PerfLevel GetPerfLevel() { return thread_measures.perf_level; }

PerfContext* GetPerfContext() { return &thread_measures.perf; }

IOStatsContext* GetIOStatsContext() { return &thread_measures.io; }

std::string PerfContext::ToString() const {
  using P = PerfContext;
  return ListNumbers<P>(
      *this,
      {{"block_cache_hit_count", &P::block_cache_hit_count},
       {"block_read_count", &P::block_read_count},
       {"block_read_byte", &P::block_read_byte},
       {"block_read_time", &P::block_read_time},
       {"block_checksum_time", &P::block_checksum_time},
       {"block_decompress_time", &P::block_decompress_time},
       {"bloom_sst_hit_count", &P::bloom_sst_hit_count},
       {"bloom_sst_miss_count", &P::bloom_sst_miss_count},
       {"get_read_bytes", &P::get_read_bytes},
       {"get_from_memtable_count", &P::get_from_memtable_count},
       {"get_from_memtable_time", &P::get_from_memtable_time},
       {"get_from_output_files_time", &P::get_from_output_files_time},
       {"multiget_read_bytes", &P::multiget_read_bytes},
       {"iter_read_bytes", &P::iter_read_bytes},
       {"internal_key_skipped_count", &P::internal_key_skipped_count},
       {"internal_delete_skipped_count", &P::internal_delete_skipped_count},
       {"write_wal_time", &P::write_wal_time},
       {"write_memtable_time", &P::write_memtable_time},
       {"write_delay_time", &P::write_delay_time},
       {"db_mutex_lock_nanos", &P::db_mutex_lock_nanos}});
}

std::string IOStatsContext::ToString() const {
  using I = IOStatsContext;
  return ListNumbers<I>(*this, {{"bytes_read", &I::bytes_read},
                                {"bytes_written", &I::bytes_written},
                                {"open_nanos", &I::open_nanos},
                                {"read_nanos", &I::read_nanos},
                                {"write_nanos", &I::write_nanos},
                                {"fsync_nanos", &I::fsync_nanos}});
}

}  // namespace varve
