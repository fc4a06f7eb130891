// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized
//
// Goal: no order of steps frees an object that has a reference, frees it twice
// or never, or ends an owner too early or never. Method: the code of
// util/threads/striped_refs.h and striped_count.h itself, run through every
// order of the steps of two or three threads and of their store buffers. Then
// each precaution is taken away, one at a time: the interleaving that it is
// there for must be found.

#include <functional>
#include <string>
#include <vector>

#include "test/testing/machine/tso_explorer.h"
#include "test/testing/test_headers.h"
#include "util/threads/striped_count.h"
#include "util/threads/striped_refs.h"

namespace varve::test {
namespace {

// The step to leave out.
struct Fault {
  bool own_reference_goes_first = false;
  bool flag_is_in_a_store_buffer = false;
  bool flag_is_read_first = false;
  bool ends_each_time = false;
  bool one_is_added_later = false;
};
Fault fault;

constexpr char kFreedEarly[] = "freed while there is a reference";
constexpr char kNotFreedOnce[] = "not freed once";
constexpr char kEndedEarly[] = "ended while there is an object";
constexpr char kNotEndedOnce[] = "not ended once";

void Expect(bool condition, const char* what) {
  TsoExplorer::current()->Expect(condition, what);
}

struct ModelMemory {
  template <typename T>
  using Atomic = ModelAtomic<T>;
};

class StripedRefsOrdersTest : public ::testing::Test {
 protected:
  void SetUp() override { fault = Fault(); }
  void TearDown() override { fault = Fault(); }
};

// An object of which each of some threads has a reference of the base.
struct Object {
  StripedRefsOf<ModelMemory, 2> refs;
  ModelAtomic<int> freed{0};

  explicit Object(int threads) {
    for (int i = 1; i < threads; ++i) refs.Ref();
  }

  void Unref() {
    if (refs.Unref()) freed.fetch_add(1);
  }
  // Takes a reference in the stripe, gives up its own one, and goes on.
  void Use(uint32_t stripe) {
    if (fault.own_reference_goes_first) Unref();
    refs.Ref(stripe);
    if (!fault.own_reference_goes_first) Unref();
    Expect(freed.load() == 0, kFreedEarly);
    if (refs.Unref(stripe)) freed.fetch_add(1);
  }
  // As an iterator that is refreshed on a thread of another stripe.
  void Move(uint32_t from, uint32_t to) {
    refs.Ref(from);
    Unref();
    refs.Ref(to);
    if (refs.Unref(from)) freed.fetch_add(1);
    Expect(freed.load() == 0, kFreedEarly);
    if (refs.Unref(to)) freed.fetch_add(1);
  }
  // As an iterator of a thread whose slot has a reference in the same stripe.
  void UseTwice(uint32_t stripe) {
    refs.Ref(stripe);
    Unref();
    refs.Ref(stripe);
    if (refs.Unref(stripe)) freed.fetch_add(1);
    Expect(freed.load() == 0, kFreedEarly);
    if (refs.Unref(stripe)) freed.fetch_add(1);
  }
};

std::string Explore(TsoExplorer* explorer, const std::function<void()>& judge) {
  const std::string complaint = explorer->Explore(judge);
  printf("%zu states, %zu ends: %s\n", explorer->states(), explorer->ends(),
         complaint.empty() ? "all good" : complaint.c_str());
  return complaint;
}

// Calls use(object, stripe) in one thread for each of the stripes.
std::string RunThreads(const std::vector<uint32_t>& stripes,
                       const std::function<void(Object*, uint32_t)>& use) {
  TsoExplorer explorer;
  Object object(static_cast<int>(stripes.size()));
  for (const uint32_t stripe : stripes) {
    explorer.AddThread([&object, &use, stripe] { use(&object, stripe); });
  }
  return Explore(&explorer, [&object] {
    Expect(object.freed.Final() == 1, kNotFreedOnce);
  });
}

std::string Use(const std::vector<uint32_t>& stripes) {
  return RunThreads(
      stripes, [](Object* object, uint32_t stripe) { object->Use(stripe); });
}

// B1 and B2 are among them.
TEST_F(StripedRefsOrdersTest, ObjectIsFreedAfterItsLastReference) {
  EXPECT_EQ(Use({0, 0}), "");
  EXPECT_EQ(Use({0, 1}), "");
  EXPECT_EQ(Use({0, 0, 0}), "");
  EXPECT_EQ(Use({0, 0, 1}), "");
  for (const std::vector<uint32_t>& stripes :
       {std::vector<uint32_t>{0, 0}, std::vector<uint32_t>{0, 1}}) {
    EXPECT_EQ(
        RunThreads(stripes, [](Object* object,
                               uint32_t stripe) { object->UseTwice(stripe); }),
        "");
    EXPECT_EQ(RunThreads(stripes,
                         [](Object* object, uint32_t stripe) {
                           object->Move(stripe, 1 - stripe);
                         }),
              "");
  }
}

TEST_F(StripedRefsOrdersTest, B3CallerHasNoOtherReference) {
  fault.own_reference_goes_first = true;
  EXPECT_EQ(Use({0, 0}), kFreedEarly);
  EXPECT_EQ(Use({0, 1}), kFreedEarly);
}

// An owner without references, which waits for its objects.
struct Owner {
  StripedCountOf<ModelMemory, 2> count;
  ModelAtomic<uint64_t> flag{0};
  ModelAtomic<uint64_t> mutex{0};
  ModelAtomic<uint64_t> ended{0};

  void Wait() {
    mutex.Lock();
    flag.store(1);
    if (!fault.flag_is_in_a_store_buffer) {
      TsoExplorer::current()->Do({TsoExplorer::Kind::kFence, 0, 0, 0});
    }
    if (count.Sum() == 0 && (fault.ends_each_time || ended.load() == 0)) {
      ended.fetch_add(1);
    }
    mutex.Unlock();
  }
  void Remove(uint32_t stripe) {
    Expect(ended.load() == 0, kEndedEarly);
    uint64_t waits = flag.load();
    count.Add(stripe, -1);
    if (!fault.flag_is_read_first) waits = flag.load();
    if (waits != 0) Wait();
  }
};

// Objects that were added in stripe 0 are removed in these stripes.
std::string End(const std::vector<uint32_t>& stripes) {
  TsoExplorer explorer;
  Owner owner;
  owner.count.Add(0, static_cast<int64_t>(stripes.size()));
  for (const uint32_t stripe : stripes) {
    explorer.AddThread([&owner, stripe] { owner.Remove(stripe); });
  }
  explorer.AddThread([&owner] {
    owner.Wait();
    if (!fault.one_is_added_later) return;
    owner.count.Add(0, 1);
    owner.Remove(0);
  });
  return Explore(&explorer,
                 [&owner] { Expect(owner.ended.Final() == 1, kNotEndedOnce); });
}

TEST_F(StripedRefsOrdersTest, OwnerEndsAfterItsLastObject) {
  EXPECT_EQ(End({0}), "");
  EXPECT_EQ(End({1}), "");
  EXPECT_EQ(End({0, 1}), "");
  EXPECT_EQ(End({1, 1}), "");
}

TEST_F(StripedRefsOrdersTest, CountI1ObjectIsCreatedAfterTheFlag) {
  fault.one_is_added_later = true;
  EXPECT_EQ(End({0}), kEndedEarly);
}

TEST_F(StripedRefsOrdersTest, CountB1FlagAndCountMissEachOther) {
  fault.flag_is_in_a_store_buffer = true;
  EXPECT_EQ(End({0}), kNotEndedOnce);
  fault = Fault();
  fault.flag_is_read_first = true;
  EXPECT_EQ(End({0}), kNotEndedOnce);
}

TEST_F(StripedRefsOrdersTest, CountB3TwoThreadsEndIt) {
  fault.ends_each_time = true;
  EXPECT_EQ(End({0, 1}), kNotEndedOnce);
}

}  // namespace
}  // namespace varve::test
