// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/seek_workloads.h"

#include <algorithm>
#include <set>

#include "tools/db_bench/workload_data.h"

namespace varve {

namespace {

// One in so many keys survives in `sparse`, `dropped` and `dropped-ranges`.
constexpr uint64_t kSurvivorDistance = 1000;
constexpr uint64_t kHotKeys = 100;

// ---- All keys deleted -------------------------------------------------------

void PutAll(const WorkloadSize& size, bool dead, SeekDatabase* database) {
  for (uint64_t i = 0; dead && i < size.num; ++i) database->writer().Put(i);
  database->PutLiveKeys(size.live);
}

void DeleteAll(const WorkloadSize& size, bool dead, SeekDatabase* database) {
  for (uint64_t i = 0; dead && i < size.num; ++i) database->writer().Delete(i);
}

void MakeDeletedInMemory(const WorkloadSize& size, bool dead,
                         SeekDatabase* database) {
  PutAll(size, dead, database);
  DeleteAll(size, dead, database);
}

void MakeDeletedOverTables(const WorkloadSize& size, bool dead,
                           SeekDatabase* database) {
  PutAll(size, dead, database);
  database->Compact();
  DeleteAll(size, dead, database);
}

void MakeDeletedInLevel0(const WorkloadSize& size, bool dead,
                         SeekDatabase* database) {
  PutAll(size, dead, database);
  if (!database->Flush()) return;
  DeleteAll(size, dead, database);
  // A flush of nothing would reopen one database and not the other.
  database->writer().Put(kLiveKeys);
  database->Flush();
}

void MakeDeletedUnderSnapshot(const WorkloadSize& size, bool dead,
                              SeekDatabase* database) {
  PutAll(size, dead, database);
  database->Compact();
  database->Fail(database->engine()->TakeSnapshot());
  DeleteAll(size, dead, database);
}

SeekTargets SeekToTheLiveKeys(const WorkloadSize& /*size*/) {
  return [](Random*) { return SeekTarget{.key = 0, .expected = kLiveKeys}; };
}

// The keys come after the live ones, and an iterator walks backwards.
void MakeDeletedBackwards(const WorkloadSize& size, bool dead,
                          SeekDatabase* database) {
  database->PutLiveKeys(size.live);
  if (!dead) return;
  const uint64_t first = 2 * kLiveKeys;
  for (uint64_t i = 0; i < size.num; ++i) database->writer().Put(first + i);
  for (uint64_t i = 0; i < size.num; ++i) database->writer().Delete(first + i);
}

SeekTargets SeekToTheLastLiveKey(const WorkloadSize& size) {
  return [last = kLiveKeys + size.live - 1](Random*) {
    return SeekTarget{.last = true, .expected = last};
  };
}

// ---- A window that moves ----------------------------------------------------

uint64_t WindowKeys(const WorkloadSize& size) {
  return std::max<uint64_t>(1, size.num / 20);
}

// Each new key deletes the one that leaves the window.
void MakeWindow(const WorkloadSize& size, bool dead, SeekDatabase* database) {
  database->PutLiveKeys(size.live);
  const uint64_t window = WindowKeys(size);
  for (uint64_t i = dead ? 0 : size.num - window; i < size.num; ++i) {
    database->writer().Put(i);
    if (dead && i >= window) database->writer().Delete(i - window);
  }
}

SeekTargets SeekToTheWindow(const WorkloadSize& size) {
  const uint64_t first = size.num - WindowKeys(size);
  return [num = size.num, first](Random* random) {
    const uint64_t key = random->Uniform(num);
    return SeekTarget{.key = key, .expected = std::max(key, first)};
  };
}

// ---- Sessions that expire ---------------------------------------------------

// A key is the time at which the session expires, and then its number.
uint64_t SessionKey(uint64_t time, uint64_t session) {
  return time << 32 | session;
}

constexpr uint64_t kSessionTicks = 200;
constexpr uint64_t kSessionLifetime = 20;  // Ticks.

// In each tick sessions begin, a tenth as many are extended, and one walk from
// the first key deletes the expired ones. Returns the sessions that are left.
// Writes nothing if `database` is null.
std::set<uint64_t> RunSessions(const WorkloadSize& size,
                               SeekDatabase* database) {
  const uint64_t per_tick = std::max<uint64_t>(1, size.num / kSessionTicks);
  Random random(size.num);
  std::set<uint64_t> live;
  uint64_t next_session = 0;
  const auto put = [&](uint64_t time, uint64_t session) {
    const uint64_t key = SessionKey(time, session);
    live.insert(key);
    if (database != nullptr) database->writer().Put(key);
  };
  for (uint64_t now = 0; now < kSessionTicks; ++now) {
    for (uint64_t i = 0; i < per_tick; ++i) {
      put(now + kSessionLifetime, next_session++);
    }
    for (uint64_t i = 0; i < per_tick / 10; ++i) {
      const auto extended = live.lower_bound(SessionKey(
          now + random.Uniform(kSessionLifetime), random.Next() & UINT32_MAX));
      if (extended == live.end()) continue;
      const uint64_t key = *extended;
      live.erase(extended);
      if (database != nullptr) database->writer().Delete(key);
      put(now + kSessionLifetime, key & UINT32_MAX);
    }
    const auto end = live.lower_bound(SessionKey(now + 1, 0));
    live.erase(live.begin(), end);
    if (database == nullptr) continue;
    KeyReader reader(database->writer().session());
    for (uint64_t key = reader.SeekToFirst(); key < SessionKey(now + 1, 0);
         key = reader.Next()) {
      database->writer().Delete(key);
    }
    database->Fail(reader.status());
  }
  return live;
}

void MakeSessions(const WorkloadSize& size, bool dead, SeekDatabase* database) {
  database->PutLiveKeys(size.live);
  const std::set<uint64_t> live = RunSessions(size, dead ? database : nullptr);
  if (dead) return;
  for (const uint64_t key : live) database->writer().Put(key);
}

SeekTargets SeekToTheFirstSession(const WorkloadSize& size) {
  const uint64_t first = *RunSessions(size, nullptr).begin();
  return
      [first](Random*) { return SeekTarget{.key = kNoKey, .expected = first}; };
}

// ---- Survivors --------------------------------------------------------------

void PutSurvivors(const WorkloadSize& size, SeekDatabase* database) {
  for (uint64_t i = 0; i < size.num; i += kSurvivorDistance) {
    database->writer().Put(i);
  }
}

SeekTargets SeekToASurvivor(const WorkloadSize& size) {
  return [num = size.num](Random* random) {
    const uint64_t key = random->Uniform(num);
    const uint64_t survivor =
        (key + kSurvivorDistance - 1) / kSurvivorDistance * kSurvivorDistance;
    return SeekTarget{.key = key,
                      .expected = survivor < num ? survivor : kLiveKeys};
  };
}

void MakeSparse(const WorkloadSize& size, bool dead, SeekDatabase* database) {
  if (!dead) PutSurvivors(size, database);
  PutAll(size, dead, database);
  database->Compact();
  if (!dead) return;
  const Permutation order(size.num, size.num);
  for (uint64_t i = 0; i < size.num; ++i) {
    const uint64_t key = order.At(i);
    if (key % kSurvivorDistance != 0) database->writer().Delete(key);
  }
}

// The prefix is dropped at once, and some of its keys are written again.
void MakeDropped(const WorkloadSize& size, bool dead, SeekDatabase* database) {
  PutAll(size, dead, database);
  database->Compact();
  if (dead) database->writer().DeleteRange(0, size.num);
  PutSurvivors(size, database);
}

// The keys between survivors are dropped, range by range.
void MakeDroppedRanges(const WorkloadSize& size, bool dead,
                       SeekDatabase* database) {
  if (!dead) PutSurvivors(size, database);
  PutAll(size, dead, database);
  database->Compact();
  if (!dead) return;
  for (uint64_t i = 0; i < size.num; i += kSurvivorDistance) {
    database->writer().DeleteRange(i + 1,
                                   std::min(i + kSurvivorDistance, size.num));
  }
}

// ---- Hot keys ---------------------------------------------------------------

// Hot keys have even numbers. After each comes a key that is written once.
void MakeHot(const WorkloadSize& size, bool dead, SeekDatabase* database) {
  for (uint64_t i = 0; i < kHotKeys; ++i) database->writer().Put(2 * i + 1);
  database->PutLiveKeys(size.live);
  Random random(size.num);
  for (uint64_t i = 0; dead && i < size.num; ++i) {
    database->writer().Put(2 * random.Uniform(kHotKeys));
  }
  for (uint64_t i = 0; i < kHotKeys; ++i) database->writer().Put(2 * i);
}

SeekTargets WalkOverAHotKey(const WorkloadSize& /*size*/) {
  return [](Random* random) {
    const uint64_t key = 2 * random->Uniform(kHotKeys);
    return SeekTarget{.key = key, .nexts = 1, .expected = key + 1};
  };
}

}  // namespace

const std::vector<SeekWorkload>& SeekWorkloads() {
  static const std::vector<SeekWorkload> workloads = {
      {.name = "delete-memory",
       .what = "num keys put and deleted one by one, all in memory",
       .make = MakeDeletedInMemory,
       .targets = SeekToTheLiveKeys,
       .in_memory = true},
      {.name = "delete-memory-1",
       .what = "the same with values of 1 byte",
       .make = MakeDeletedInMemory,
       .targets = SeekToTheLiveKeys,
       .in_memory = true,
       .value_bytes = 1},
      {.name = "delete-memory-400",
       .what = "the same with values of 400 bytes",
       .make = MakeDeletedInMemory,
       .targets = SeekToTheLiveKeys,
       .in_memory = true,
       .value_bytes = 400},
      {.name = "delete-backwards",
       .what = "the same, walked over from the last key",
       .make = MakeDeletedBackwards,
       .targets = SeekToTheLastLiveKey,
       .in_memory = true},
      {.name = "delete-tables",
       .what = "num keys in tables, then deleted one by one",
       .make = MakeDeletedOverTables,
       .targets = SeekToTheLiveKeys},
      {.name = "delete-level0",
       .what = "num keys flushed, deleted one by one, and flushed again",
       .make = MakeDeletedInLevel0,
       .targets = SeekToTheLiveKeys},
      {.name = "snapshot",
       .what = "num keys deleted under a snapshot that is then released",
       .make = MakeDeletedUnderSnapshot,
       .targets = SeekToTheLiveKeys,
       .snapshot = true},
      {.name = "sessions",
       .what = "sessions with the time they expire as key, and a deleter",
       .make = MakeSessions,
       .targets = SeekToTheFirstSession,
       .write_buffer_part = 8},
      {.name = "window",
       .what = "a window of num/20 keys that moves over num keys",
       .make = MakeWindow,
       .targets = SeekToTheWindow,
       .write_buffer_part = 8},
      {.name = "sparse",
       .what = "num keys in tables, of which one in 1,000 survives",
       .make = MakeSparse,
       .targets = SeekToASurvivor},
      {.name = "hot",
       .what = "100 keys overwritten num times, each walked over",
       .make = MakeHot,
       .targets = WalkOverAHotKey},
      {.name = "dropped",
       .what = "num keys dropped by one DeleteRange, then some put again",
       .make = MakeDropped,
       .targets = SeekToASurvivor},
      {.name = "dropped-ranges",
       .what = "num keys dropped by a DeleteRange between any two survivors",
       .make = MakeDroppedRanges,
       .targets = SeekToASurvivor},
  };
  return workloads;
}

}  // namespace varve
