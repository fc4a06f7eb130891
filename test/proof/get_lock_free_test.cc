// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a read of what is in memory executes no instruction that locks memory,
// no system call and no operation of a mutex, so that readers cannot slow each
// other down, with statistics that count it; a pinned value adds one pin and
// one unpin. Method: a child process opens a database, reads it into the cache
// and is then led through reads one instruction at a time. A machine that
// forbids that fails the test.

#include <random>

#include "experimental/ablation.h"
#include "test/testing/machine/single_stepper.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "util/threads/per_cpu.h"
#include "varve/catalog.h"
#include "varve/read_transaction.h"

namespace varve::test {
namespace {

constexpr int kEntries = 20000;
constexpr size_t kBatch = 32;
constexpr uint64_t kGets = 50;
constexpr uint64_t kMultiGets = 4;

// Whether statistics are kept by restartable sequences on this machine.
const bool kHasSequences = BestPerCpuPath() != PerCpuPath::kAtomic;

std::string KeyOf(int number) {
  char text[32];
  snprintf(text, sizeof(text), "user%012d", number);
  return text;
}
std::string ValueOf(const std::string& key) {
  return key + std::string(100 - key.size(), 'v');
}
// Sorts among the others.
std::string AbsentKeyOf(int number) { return KeyOf(number) + "x"; }

// The child's reads, and their outputs.
struct Reads {
  std::unique_ptr<DB> db;
  std::unique_ptr<Catalog> catalog;  // Only for lookups of databases.
  std::vector<DB*> found;
  ReadOptions options;
  std::vector<std::string> keys;
  std::vector<Slice> slices;
  Status statuses[kBatch];
  std::string value;
  PinnableSlice pinned[kBatch];
  std::vector<std::string> values;
};

// The last two are of a case-insensitive database.
enum class Place { kTables, kMemtable, kNowhere, kFolded, kFoldedNowhere };

// Makes the database and chooses what to read. Aborts if something fails.
void Prepare(const std::string& path, const AblationOptions& ablation,
             Place place, uint64_t pieces, Reads* reads) {
  Options options;
  if (!ablation.ToString().empty()) {
    options.experiment = NewExperiment(ablation);
  }
  options.create_if_missing = true;
  options.compression = CompressionType::kNone;
  options.filter_policy = NewBloomFilterPolicy(10);
  options.block_cache = NewBlockCache(64 << 20);
  const bool folded = place >= Place::kFolded;
  if (folded) options.key_case = KeyCase::kInsensitive;
  // Their replacement has to lock.
  if (!kHasSequences) options.stats_level = StatsLevel::kDisableAll;
  const auto must = [](const Status& s) {
    if (s.ok()) return;
    fprintf(stderr, "%s\n", s.ToString().c_str());
    abort();
  };
  must(DB::Open(options, path, &reads->db));
  for (int i = 0; i < kEntries; i++) {
    must(reads->db->Put({}, KeyOf(i), ValueOf(KeyOf(i))));
  }
  if (place != Place::kMemtable) {
    must(reads->db->Flush({}));
    must(reads->db->CompactRange({}, nullptr, nullptr));
    must(reads->db->WaitForCompact());
    for (int i = 0; i < kEntries; i++) {
      must(reads->db->Get({}, KeyOf(i), &reads->value));
    }
  }
  std::minstd_rand random(20);
  for (uint64_t i = 0; i < pieces * kBatch; i++) {
    const int number = static_cast<int>(random() % kEntries);
    const bool absent =
        place == Place::kNowhere || place == Place::kFoldedNowhere;
    reads->keys.push_back(absent ? AbsentKeyOf(number) : KeyOf(number));
  }
  if (folded) {
    for (std::string& key : reads->keys) key.replace(0, 4, "USER");
  }
  reads->slices.assign(reads->keys.begin(), reads->keys.end());
  reads->value.reserve(1000);
  reads->values.assign(kBatch, std::string(1000, ' '));
}

// One piece of work: reads->keys[piece * kBatch] and up to 31 more.
using Piece = std::function<void(Reads*, size_t piece)>;
// Whether the piece read what it should have.
using Judge = std::function<bool(Reads*, size_t piece)>;

class GetLockFreeTest : public ::testing::Test {
 protected:
  StepReport Step(Place place, uint64_t pieces, const Piece& piece,
                  const Judge& judge) {
    const auto child = [&](const std::function<void()>& ready) {
      Reads reads;
      Prepare(dir_.Sub("db" + std::to_string(databases_)), ablation_, place,
              pieces, &reads);
      // With one thread only, libraries leave out what this test looks for.
      std::mutex wait;
      wait.lock();
      std::thread([&wait] { wait.lock(); }).detach();
      // Symbols are bound and memory is allocated in the first rounds.
      for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < pieces; i++) piece(&reads, i);
      }
      ready();
      bool good = true;
      for (size_t i = 0; i < pieces; i++) {
        BeginSteps();
        piece(&reads, i);
        EndSteps();
        good = judge(&reads, i) && good;
      }
      if (!good) fprintf(stderr, "a read gave a wrong answer\n");
      // Straight out: the other thread still waits.
      fflush(stderr);
      _exit(good ? 0 : 1);
      return good;
    };
    databases_++;
    SingleStepper stepper;
    return stepper.Run(pieces, child);
  }

  // Prints what one read costs, reads being pieces * keys.
  void Print(const char* what, const StepReport& report, uint64_t reads) {
    const auto each = [&](uint64_t count) {
      return static_cast<double>(count) / static_cast<double>(reads);
    };
    printf(
        "%s: %.0f instructions, %.2f locked, %.2f system calls, "
        "%.2f mutex operations, %.2f allocations, %.2f restartable "
        "sequences\n",
        what, each(report.instructions), each(report.locked),
        each(report.system_calls), each(report.mutex_operations),
        each(report.allocations), each(report.sequences));
    int lines = 0;
    for (const auto& [finding, count] : report.findings) {
      if (lines++ == 10) break;
      printf("  %.2f times: %s\n", each(count), finding.c_str());
    }
    fflush(stdout);
  }

  // Steps through pieces of `keys` reads; at most `locked_each` locked
  // instructions for each read.
  void StepReads(const char* what, Place place, uint64_t pieces, uint64_t keys,
                 uint64_t locked_each, const Piece& piece, const Judge& judge) {
    const StepReport frame = Step(
        Place::kMemtable, pieces, [](Reads*, size_t) {},
        [](Reads*, size_t) { return true; });
    ASSERT_EQ(frame.error, "");
    StepReport report = Step(place, pieces, piece, judge);
    ASSERT_EQ(report.error, "");
    ASSERT_EQ(report.pieces, pieces);
    // The cost of calling an empty piece.
    report.instructions -= frame.instructions;
    const uint64_t reads = pieces * keys;
    Print(what, report, reads);
    EXPECT_GT(report.instructions, 20 * reads) << "nothing was read";
    EXPECT_LE(report.locked, locked_each * reads);
    EXPECT_EQ(report.system_calls, 0u);
    EXPECT_EQ(report.mutex_operations, 0u);
    // Statistics are on.
    if (kHasSequences) {
      EXPECT_GE(report.sequences, pieces);
    }
  }
  void StepGets(const char* what, Place place, uint64_t locked_each,
                const Piece& piece, const Judge& judge) {
    StepReads(what, place, kGets, 1, locked_each, piece, judge);
  }
  void StepMultiGets(const char* what, Place place, uint64_t locked_each,
                     const Piece& piece, const Judge& judge) {
    StepReads(what, place, kMultiGets, kBatch, locked_each, piece, judge);
  }

  TempDir dir_;
  int databases_ = 0;
  AblationOptions ablation_;
};

void GetString(Reads* reads, size_t piece) {
  reads->statuses[0] = reads->db->Get(
      reads->options, reads->slices[piece * kBatch], &reads->value);
}
bool StringIsRight(Reads* reads, size_t piece) {
  return reads->statuses[0].ok() &&
         reads->value == ValueOf(reads->keys[piece * kBatch]);
}
bool NothingWasFound(Reads* reads, size_t) {
  return reads->statuses[0].IsNotFound();
}
// Releases the value that the previous piece pinned.
void GetPinned(Reads* reads, size_t piece) {
  reads->statuses[0] = reads->db->Get(
      reads->options, reads->slices[piece * kBatch], &reads->pinned[0]);
}
bool PinnedIsRight(Reads* reads, size_t piece) {
  return reads->statuses[0].ok() && reads->pinned[0].IsPinned() &&
         reads->pinned[0] == Slice(ValueOf(reads->keys[piece * kBatch]));
}
void MultiGetPinned(Reads* reads, size_t piece) {
  reads->db->MultiGet(reads->options, kBatch, &reads->slices[piece * kBatch],
                      reads->pinned, reads->statuses);
}
bool AllPinnedAreRight(Reads* reads, size_t piece) {
  for (size_t i = 0; i < kBatch; i++) {
    if (!reads->statuses[i].ok() || !reads->pinned[i].IsPinned() ||
        !(reads->pinned[i] ==
          Slice(ValueOf(reads->keys[piece * kBatch + i])))) {
      return false;
    }
  }
  return true;
}
bool AllStringsAreRight(Reads* reads, size_t piece) {
  for (size_t i = 0; i < kBatch; i++) {
    if (!reads->statuses[i].ok() ||
        reads->values[i] != ValueOf(reads->keys[piece * kBatch + i])) {
      return false;
    }
  }
  return true;
}
bool NoValueWasFound(Reads* reads, size_t) {
  for (const Status& s : reads->statuses) {
    if (!s.IsNotFound()) return false;
  }
  return true;
}

TEST_F(GetLockFreeTest, GetIntoStringSharesNothing) {
  StepGets("Get into std::string", Place::kTables, 0, GetString, StringIsRight);
}

TEST_F(GetLockFreeTest, GetOfAbsentKeySharesNothing) {
  StepGets("Get of an absent key", Place::kNowhere, 0, GetString,
           NothingWasFound);
}

TEST_F(GetLockFreeTest, GetFromMemtableSharesNothing) {
  StepGets("Get from the memtable", Place::kMemtable, 0, GetString,
           StringIsRight);
}

TEST_F(GetLockFreeTest, GetAtSnapshotSharesNothing) {
  StepGets(
      "Get at a snapshot", Place::kTables, 0,
      [](Reads* reads, size_t piece) {
        // In the first round, before anything is stepped through.
        if (reads->options.snapshot == nullptr) {
          reads->options.snapshot = reads->db->GetSnapshot();
        }
        GetString(reads, piece);
      },
      StringIsRight);
}

TEST_F(GetLockFreeTest, GetOfFoldedKeySharesNothing) {
  StepGets("Get of a folded key", Place::kFolded, 0, GetString,
           [](Reads* reads, size_t piece) {
             std::string key = reads->keys[piece * kBatch];
             key.replace(0, 4, "user");
             return reads->statuses[0].ok() && reads->value == ValueOf(key);
           });
  StepGets("Get of an absent folded key", Place::kFoldedNowhere, 0, GetString,
           NothingWasFound);
}

// Finds one of ten databases, by its name in three cases, and releases it.
void FindDatabase(const std::string& root, Reads* reads, size_t piece) {
  static std::vector<std::string> names;
  if (reads->catalog == nullptr) {
    CatalogOptions options;
    options.create_if_missing = true;
    if (!Catalog::Open(options, root, &reads->catalog).ok()) abort();
    for (int i = 0; i < 10; i++) {
      const std::string name = "Oren" + std::to_string(i * i * i);
      if (!reads->catalog->Create(name).ok()) abort();
      for (const char* start : {"Oren", "oren", "oRen"}) {
        names.push_back(name);
        names.back().replace(0, 4, start);
      }
    }
    reads->found.resize(kGets);
  }
  const std::string& name = names[piece % names.size()];
  DatabaseRef ref;
  reads->statuses[0] = reads->catalog->Find(name, &ref);
  reads->found[piece] = ref.get();
}

TEST_F(GetLockFreeTest, FindOfACachedNameSharesNothing) {
  const auto nothing = [](Reads*, size_t) { return true; };
  const StepReport frame = Step(
      Place::kMemtable, kGets, [](Reads*, size_t) {}, nothing);
  ASSERT_EQ(frame.error, "");
  const std::string root = dir_.Sub("catalog");
  StepReport report = Step(
      Place::kMemtable, kGets,
      [&root](Reads* reads, size_t piece) { FindDatabase(root, reads, piece); },
      [](Reads* reads, size_t piece) {
        return reads->statuses[0].ok() &&
               reads->found[piece] == reads->found[piece / 3 * 3];
      });
  ASSERT_EQ(report.error, "");
  report.instructions -= frame.instructions;
  Print("Find of a cached name", report, kGets);
  EXPECT_GT(report.instructions, 20 * kGets);
  EXPECT_EQ(report.locked, 0u);
  EXPECT_EQ(report.system_calls, 0u);
  EXPECT_EQ(report.mutex_operations, 0u);
  EXPECT_EQ(report.allocations, 0u);
}

TEST_F(GetLockFreeTest, GetIntoPinnableSlicePinsAndUnpinsOnce) {
  StepGets("Get into PinnableSlice", Place::kTables, 2, GetPinned,
           PinnedIsRight);
}

TEST_F(GetLockFreeTest, MultiGetPinsAndUnpinsEachValueOnce) {
  StepMultiGets("MultiGet of 32 into PinnableSlice, a key", Place::kTables, 2,
                MultiGetPinned, AllPinnedAreRight);
}

TEST_F(GetLockFreeTest, MultiGetOfAbsentKeysSharesNothing) {
  StepMultiGets("MultiGet of 32 absent keys, a key", Place::kNowhere, 0,
                MultiGetPinned, NoValueWasFound);
}

TEST_F(GetLockFreeTest, MultiGetIntoStringsSharesNothing) {
  StepMultiGets(
      "MultiGet of 32 into std::string, a key", Place::kTables, 0,
      [](Reads* reads, size_t piece) {
        reads->values.resize(kBatch);
        reads->db->MultiGet(reads->options, kBatch,
                            &reads->slices[piece * kBatch],
                            reads->values.data(), reads->statuses);
      },
      AllStringsAreRight);
}

// The cost of beginning and ending a read, in each form. The baseline's is
// printed.
TEST_F(GetLockFreeTest, StartingToReadSharesNothing) {
  const std::pair<const char*, Piece> pieces[] = {
      {"nothing", [](Reads*, size_t) {}},
      {"begin and end of a ReadTransaction",
       [](Reads* reads, size_t) {
         const ReadTransaction read(reads->db.get());
       }},
      {"GetSnapshot and ReleaseSnapshot",
       [](Reads* reads, size_t) {
         reads->db->ReleaseSnapshot(reads->db->GetSnapshot());
       }},
  };
  for (const SnapshotMode mode :
       {SnapshotMode::kPerThread, SnapshotMode::kMutex}) {
    ablation_.snapshots = mode;
    uint64_t frame = 0;
    for (const auto& [what, piece] : pieces) {
      StepReport report = Step(Place::kTables, kGets, piece,
                               [](Reads*, size_t) { return true; });
      ASSERT_EQ(report.error, "");
      ASSERT_EQ(report.pieces, kGets);
      if (frame == 0) frame = report.instructions;
      report.instructions -= frame;
      Print((std::string(what) + " " + ablation_.ToString()).c_str(), report,
            kGets);
      if (mode != SnapshotMode{}) continue;
      EXPECT_EQ(report.locked, 0u);
      EXPECT_EQ(report.system_calls, 0u);
      EXPECT_EQ(report.mutex_operations, 0u);
      EXPECT_EQ(report.allocations, 0u);
    }
  }
}

TEST_F(GetLockFreeTest, GetInReadTransactionSharesNothing) {
  StepGets(
      "Get in a ReadTransaction, with its begin and end", Place::kTables, 0,
      [](Reads* reads, size_t piece) {
        const ReadTransaction read(reads->db.get());
        reads->statuses[0] = read.Get(
            reads->options, reads->slices[piece * kBatch], &reads->value);
      },
      StringIsRight);
}

// Not free of locks, but what an iterator takes is shown.
TEST_F(GetLockFreeTest, IteratorIsCounted) {
  const StepReport report = Step(
      Place::kTables, kGets,
      [](Reads* reads, size_t piece) {
        const auto iterator = reads->db->NewIterator(reads->options);
        iterator->Seek(reads->slices[piece * kBatch]);
        reads->statuses[0] = iterator->Valid() ? Status() : Status::NotFound();
      },
      [](Reads* reads, size_t) { return reads->statuses[0].ok(); });
  ASSERT_EQ(report.error, "");
  Print("NewIterator, Seek and its end", report, kGets);
  EXPECT_EQ(report.system_calls, 0u);
}

// Checks the checker, which could pass by finding nothing.
TEST_F(GetLockFreeTest, DetectsLocksAndSystemCalls) {
  static std::atomic<int> shared = 0;
  static std::mutex mutex;
  const StepReport report = Step(
      Place::kMemtable, 10,
      [](Reads*, size_t) {
        shared.fetch_add(1);
        shared.exchange(1);
        getppid();
        mutex.lock();
        mutex.unlock();
      },
      [](Reads*, size_t) { return true; });
  ASSERT_EQ(report.error, "");
  Print("fetch_add, exchange, getppid, a mutex", report, 10);
  // The mutex itself locks memory when it is taken and when it is given back.
  EXPECT_GE(report.locked, 40u);
  EXPECT_EQ(report.system_calls, 10u);
  EXPECT_EQ(report.mutex_operations, 20u);

  const StepReport nothing = Step(
      Place::kMemtable, 10, [](Reads*, size_t) {},
      [](Reads*, size_t) { return true; });
  ASSERT_EQ(nothing.error, "");
  Print("nothing at all", nothing, 10);
  EXPECT_EQ(nothing.locked + nothing.system_calls + nothing.mutex_operations,
            0u);
}

TEST(X86InstructionTest, KnowsTheLengthsOfSequenceInstructions) {
  const std::vector<std::vector<uint8_t>> instructions = {
      {0x48, 0x8d, 0x05, 1, 2, 3, 4},        // lea 0x4030201(%rip),%rax
      {0x64, 0x48, 0x89, 0x41, 0x08},        // mov %rax,%fs:8(%rcx)
      {0x64, 0x49, 0x89, 0x44, 0x24, 0x08},  // mov %rax,%fs:8(%r12)
      {0x64, 0x8b, 0x06},                    // mov %fs:(%rsi),%eax
      {0x48, 0x69, 0xc0, 0, 0x60, 0, 0},     // imul $0x6000,%rax,%rax
      {0x48, 0x0f, 0xaf, 0xc3},              // imul %rbx,%rax
      {0x48, 0x83, 0x04, 0x02, 0x01},        // addq $1,(%rdx,%rax)
      {0x48, 0x81, 0x04, 0x02, 1, 2, 3, 4},  // addq $0x4030201,(...)
      {0x48, 0x01, 0x2c, 0x02},              // add %rbp,(%rdx,%rax)
      {0x48, 0x01, 0x54, 0x05, 0x00},        // add %rdx,0(%rbp,%rax)
      {0x48, 0x39, 0x8c, 0x05, 1, 2, 3, 4},  // cmp %rcx,disp(%rbp,%rax)
      {0x73, 0x04},                          // jae
      {0x48, 0x89, 0x0c, 0x45, 1, 2, 3, 4},  // mov %rcx,disp(,%rax,2)
  };
  for (const auto& bytes : instructions) {
    std::vector<uint8_t> longer = bytes;
    longer.resize(15);
    EXPECT_EQ(SequenceInstructionLength(longer.data(), longer.size()),
              bytes.size())
        << "opcode " << int{bytes[1]};
  }
  for (const std::vector<uint8_t>& bytes :
       {std::vector<uint8_t>{}, {0x48}, {0xc3}, {0x0f, 0x05}, {0xe8, 0, 0}}) {
    EXPECT_EQ(SequenceInstructionLength(bytes.data(), bytes.size()), 0u);
  }
}

InstructionKind KindOf(const std::vector<uint8_t>& bytes) {
  return KindOfInstruction(bytes.data(), bytes.size());
}

TEST(X86InstructionTest, TellsKindsApart) {
  using K = InstructionKind;
  EXPECT_EQ(KindOf({0xf0, 0x48, 0x0f, 0xb1, 0x0a}), K::kLocked);  // cmpxchg
  EXPECT_EQ(KindOf({0x66, 0xf0, 0x0f, 0xc1, 0x07}), K::kLocked);  // xadd
  EXPECT_EQ(KindOf({0x64, 0xf0, 0xff, 0x07}), K::kLocked);        // inc
  // mov $0xf0f0.., %rax: the bytes are no prefixes.
  EXPECT_EQ(KindOf({0x48, 0xb8, 0xf0, 0xf0, 0xf0, 0xf0}), K::kPlain);
  EXPECT_EQ(KindOf({0x48, 0x87, 0x07}), K::kExchange);
  EXPECT_EQ(KindOf({0x86, 0x45, 0x10}), K::kExchange);
  EXPECT_EQ(KindOf({0x66, 0x87, 0x07}), K::kExchange);
  EXPECT_EQ(KindOf({0x48, 0x87, 0xc3}), K::kPlain);        // Of registers.
  EXPECT_EQ(KindOf({0x90}), K::kPlain);                    // nop
  EXPECT_EQ(KindOf({0x48, 0x0f, 0xb1, 0x0a}), K::kPlain);  // Not locked.
  EXPECT_EQ(KindOf({0x0f, 0xae, 0xf0}), K::kFence);
  EXPECT_EQ(KindOf({0x0f, 0xae, 0xe8}), K::kPlain);        // lfence
  EXPECT_EQ(KindOf({0xf3, 0x0f, 0xae, 0xf0}), K::kPlain);  // umonitor
  EXPECT_EQ(KindOf({0x0f, 0x05}), K::kSystemCall);
  EXPECT_EQ(KindOf({0x0f, 0x34}), K::kSystemCall);
  EXPECT_EQ(KindOf({0xcd, 0x80}), K::kSystemCall);
  EXPECT_EQ(KindOf({0xcd, 0x03}), K::kPlain);
  EXPECT_EQ(KindOf({0xc5, 0xf0, 0x57, 0xc0}), K::kPlain);  // A vector's.
  EXPECT_EQ(KindOf({0xf0}), K::kLocked);
  EXPECT_EQ(KindOf({}), K::kPlain);
}

}  // namespace
}  // namespace varve::test
