// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: no change makes an operation execute over 2 % more instructions
// unnoticed. Method: a child process is single-stepped through some operations
// of each kind, and their mean count is compared with instruction_counts.txt in
// this folder. That file says what the counts depend on and how to renew them.
// Other load can add instructions: the kernel's clock reads again what a tick
// changed, and calls that take ten milliseconds are recorded. So a count that
// is too high is repeated, and the least count of each operation is taken.
// The file also keeps the sum of its counts at each renewal. Each renewal may
// have its reason, and still the sum must not rise for ever.

#include <unistd.h>

#include <random>

#include "monitoring/instrumented_file.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/machine/single_stepper.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "util/threads/per_cpu.h"

namespace varve::test {
namespace {

// glibc selects its string functions by these. Without them, every x86-64
// processor gets the SSE2 functions.
constexpr char kTunables[] =
    "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM,"
    "-SSSE3,-SSE4_1,-SSE4_2,-BMI1,-BMI2,-LZCNT,-MOVBE,-RTM,"
    "-AVX_Fast_Unaligned_Load,-Fast_Unaligned_Copy";
const std::string kBaseline =
    FixturesDir() + "/../proof/instruction_counts.txt";
constexpr char kRenew[] = "VARVE_RENEW_INSTRUCTION_COUNTS";
constexpr double kTolerance = 1.02;
constexpr int kMostRuns = 8;

constexpr int kEntries = 20000;
constexpr size_t kBatch = 32;
constexpr uint64_t kPieces = 40;        // One operation each.
constexpr uint64_t kBatchedPieces = 4;  // kBatch operations each.

std::string KeyOf(int number) {
  char text[32];
  snprintf(text, sizeof(text), "user%012d", number);
  return text;
}

void Must(const Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "%s\n", s.ToString().c_str());
  abort();
}

struct Database {
  std::unique_ptr<DB> db;
  // Of a column family with the same entries.
  std::unique_ptr<ColumnFamilyHandle> family;
  std::unique_ptr<Iterator> iterator;
  std::vector<std::string> keys;  // kBatch for each piece.
  std::vector<Slice> slices;
  std::string value;
  PinnableSlice pinned[kBatch];
  Status statuses[kBatch];
};

enum class Place { kTable, kMemtable };

void Prepare(const std::string& path, Place place, bool in_family,
             const char* suffix, Database* database) {
  Options options;
  options.create_if_missing = true;
  options.compression = CompressionType::kNone;
  options.filter_policy = NewBloomFilterPolicy(10);
  options.block_cache = NewBlockCache(64 << 20);
  // By default the log is mapped only while writes are frequent, and valgrind
  // makes them slow.
  options.wal_write = WriteMethod::kCall;
  Must(DB::Open(options, path, &database->db));
  ColumnFamilyHandle* family = nullptr;
  if (in_family) {
    Must(database->db->CreateColumnFamily(options, "other", &family));
    database->family.reset(family);
  }
  const std::string value(100, 'v');
  for (int i = 0; i < kEntries; ++i) {
    Must(database->db->Put({}, family, KeyOf(i), value));
  }
  if (place == Place::kTable) {
    Must(database->db->Flush({}, family));
    Must(database->db->CompactRange({}, family, nullptr, nullptr));
    Must(database->db->WaitForCompact());
  }
  std::minstd_rand random(20);
  for (uint64_t i = 0; i < kPieces * kBatch; ++i) {
    database->keys.push_back(KeyOf(static_cast<int>(random() % kEntries)) +
                             suffix);
  }
  database->slices.assign(database->keys.begin(), database->keys.end());
  database->value.reserve(1000);
  database->iterator = database->db->NewIterator({}, family);
}

struct Operation {
  const char* name;
  Place place;
  const char* suffix;   // The end of each key. If not empty, the key is absent.
  uint64_t operations;  // In a piece.
  // Called before each piece and not counted.
  std::function<void(Database*, const Slice*)> before;
  // One piece, of the keys at the pointer. Returns false if it failed.
  std::function<bool(Database*, const Slice*)> run;
  bool in_family = false;  // In a column family beside the default one.
};

bool GetKey(Database* d, const Slice* keys) {
  return d->db->Get({}, *keys, &d->value).ok() && d->value.size() == 100;
}

void SeekKey(Database* d, const Slice* keys) { d->iterator->Seek(*keys); }

const Operation kOperations[] = {
    {"Get into a string", Place::kTable, "", 1, nullptr, GetKey},
    {"Get of an absent key", Place::kTable, "x", 1, nullptr,
     [](Database* d, const Slice* keys) {
       return d->db->Get({}, *keys, &d->value).IsNotFound();
     }},
    {"Get from the memtable", Place::kMemtable, "", 1, nullptr, GetKey},
    {"MultiGet of 32, a key", Place::kTable, "", kBatch, nullptr,
     [](Database* d, const Slice* keys) {
       d->db->MultiGet({}, kBatch, keys, d->pinned, d->statuses);
       return d->statuses[0].ok() && d->statuses[kBatch - 1].ok();
     }},
    {"Put", Place::kMemtable, "", 1, nullptr,
     [](Database* d, const Slice* keys) {
       return d->db->Put({}, *keys, *keys).ok();
     }},
    {"Seek", Place::kTable, "", 1, nullptr,
     [](Database* d, const Slice* keys) {
       SeekKey(d, keys);
       return d->iterator->Valid();
     }},
    {"Next", Place::kTable, "", kBatch, SeekKey,
     [](Database* d, const Slice*) {
       for (size_t i = 0; i < kBatch && d->iterator->Valid(); ++i) {
         d->iterator->Next();
       }
       return d->iterator->status().ok();
     }},
    {"Get in a column family", Place::kTable, "", 1, nullptr,
     [](Database* d, const Slice* keys) {
       return d->db->Get({}, d->family.get(), *keys, &d->value).ok() &&
              d->value.size() == 100;
     },
     true},
    {"Put in a column family", Place::kMemtable, "", 1, nullptr,
     [](Database* d, const Slice* keys) {
       return d->db->Put({}, d->family.get(), *keys, *keys).ok();
     },
     true},
};

// The instructions of each piece. ISA-L selects its CRC by the processor and
// has no switch for it, so its instructions do not count.
std::vector<uint64_t> Count(const Operation& operation) {
  const uint64_t pieces = operation.operations == 1 ? kPieces : kBatchedPieces;
  TempDir dir;
  SingleStepper stepper;
  // An append in single steps takes so long that it is recorded as a wait.
  stepper.LeaveOutCallsOf(&FileWaits::Record);
  stepper.LeaveOut("libisal");
  const StepReport report =
      stepper.Run(pieces, [&](const std::function<void()>& ready) {
        Database database;
        Prepare(dir.Sub("db"), operation.place, operation.in_family,
                operation.suffix, &database);
        bool good = true;
        const auto run_all = [&] {
          for (uint64_t i = 0; i < pieces; ++i) {
            const Slice* keys = &database.slices[i * kBatch];
            if (operation.before) operation.before(&database, keys);
            BeginSteps();
            good = operation.run(&database, keys) && good;
            EndSteps();
          }
        };
        run_all();  // Binds symbols and fills the cache.
        ready();
        run_all();
        return good;
      });
  EXPECT_EQ(report.error, "");
  EXPECT_EQ(report.pieces, pieces);
  return report.instructions_of_pieces;
}

// The mean of an operation, from the least count of each piece. Runs again
// while that is over the limit.
double CountUndisturbed(const Operation& operation, double limit) {
  std::vector<uint64_t> least;
  double mean = 0;
  for (int run = 0; run < kMostRuns && !testing::Test::HasFailure(); ++run) {
    const std::vector<uint64_t> counts = Count(operation);
    least.resize(counts.size(), UINT64_MAX);
    uint64_t sum = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      least[i] = std::min(least[i], counts[i]);
      sum += least[i];
    }
    mean = static_cast<double>(sum) /
           static_cast<double>(counts.size() * operation.operations);
    if (mean <= limit) break;
  }
  return mean;
}

// The lines of the file that begin with '#', or are empty, are its comments.
// The others are a name, a colon and a value.
std::map<std::string, std::string> ReadBaseline(std::string* comments) {
  std::map<std::string, std::string> values;
  std::ifstream file(kBaseline);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.empty() || line[0] == '#' || colon == std::string::npos) {
      *comments += line + "\n";
    } else {
      values[line.substr(0, colon)] = line.substr(colon + 2);
    }
  }
  return values;
}

std::vector<long> ReadSums(const std::string& text) {
  std::istringstream words(text);
  return std::vector<long>(std::istream_iterator<long>(words), {});
}

// Returns whether each of the last three renewals has raised the sum.
bool RoseThreeTimes(const std::vector<long>& sums) {
  return sums.size() > 3 &&
         std::adjacent_find(sums.end() - 4, sums.end(),
                            std::greater_equal<>()) == sums.end();
}

TEST(InstructionCountsTest, TheSumDoesNotRiseThreeTimesInARow) {
  EXPECT_FALSE(RoseThreeTimes({}));
  EXPECT_FALSE(RoseThreeTimes({1, 2, 3}));
  EXPECT_FALSE(RoseThreeTimes({1, 2, 3, 3}));
  EXPECT_FALSE(RoseThreeTimes({1, 2, 3, 4, 2}));
  EXPECT_TRUE(RoseThreeTimes({9, 1, 2, 3, 4}));
  std::string comments;
  std::map<std::string, std::string> baseline = ReadBaseline(&comments);
  const std::vector<long> sums = ReadSums(baseline["sums"]);
  long sum = 0;
  for (const Operation& operation : kOperations) {
    sum += strtol(baseline[operation.name].c_str(), nullptr, 10);
  }
  ASSERT_FALSE(sums.empty());
  EXPECT_EQ(sums.back(), sum) << "change " << kBaseline << " by " << kRenew;
  EXPECT_FALSE(RoseThreeTimes(sums))
      << "the last three renewals of " << kBaseline
      << " have all raised the sum: " << baseline["sums"]
      << ". Take some of it back before the next one.";
}

// The counts hold for one kind of build, kernel and compiler. Debian 12's g++
// and a kernel since 4.18 have them, so the stage "release" of .ci/run counts
// there. ctest lists the test as skipped elsewhere.
TEST(InstructionCountsTest, NoOperationExecutesOverTwoPercentMore) {
  if (strcmp(VARVE_BUILD_TYPE, "RelWithDebInfo") != 0) {
    GTEST_SKIP() << "the counts are for the preset release";
  }
  if (BestPerCpuPath() == PerCpuPath::kAtomic) {
    GTEST_SKIP() << "the counts are for a kernel with restartable sequences";
  }
  std::string text;
  std::map<std::string, std::string> baseline = ReadBaseline(&text);
  const bool renew = getenv(kRenew) != nullptr;
  if (!renew && baseline["compiler"] != __VERSION__) {
    GTEST_SKIP() << "the counts are for the compiler " << baseline["compiler"];
  }
  text += "compiler: " __VERSION__ "\n";
  long sum = 0;
  for (const Operation& operation : kOperations) {
    const double limit =
        strtod(baseline[operation.name].c_str(), nullptr) * kTolerance;
    const double count = CountUndisturbed(operation, renew ? 0 : limit);
    printf("%s: %.1f instructions, at most %.1f\n", operation.name, count,
           limit);
    fflush(stdout);
    text += std::string(operation.name) + ": " +
            std::to_string(std::lround(count)) + "\n";
    sum += std::lround(count);
    if (!renew) {
      EXPECT_LE(count, limit)
          << operation.name << " executes over 2 % more instructions than "
          << kBaseline
          << " has. If that is worth it, renew the file: " << kRenew
          << "=1 build/release/instruction_counts_test";
    }
  }
  if (!renew || HasFailure()) return;
  std::ofstream(kBaseline) << text << "sums: " << baseline["sums"] << " " << sum
                           << "\n";
}

}  // namespace
}  // namespace varve::test

// Dispatch happens when a program is loaded, so the test starts itself anew.
int main(int argc, char** argv) {
  const char* tunables = getenv("GLIBC_TUNABLES");
  if (tunables == nullptr || strcmp(tunables, varve::test::kTunables) != 0) {
    setenv("GLIBC_TUNABLES", varve::test::kTunables, 1);
    execv("/proc/self/exe", argv);
    perror("execv");
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
