// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized
//
// Goal: no order of steps lets a compaction drop what a snapshot sees, or lets
// a SuperVersion be freed while it is pinned, or never. Method: the code of
// db/snapshot/snapshot_handshake.h itself, run through every order of the steps
// of two to four threads and of their store buffers. Then each precaution is
// taken away, one at a time: the interleaving that it is there for must be
// found.

#include "db/snapshot/snapshot_handshake.h"

#include "test/testing/machine/tso_explorer.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

// The step to leave out.
struct Fault {
  bool no_heavy_barrier = false;
  bool no_light_fence = false;  // Where the other side has no heavy barrier.
  bool watermark_is_ignored = false;
  bool watermark_is_stored = false;
  bool repin_is_skipped = false;
  bool uncount_is_skipped = false;
  bool release_comes_first = false;
  bool new_pins_are_counted = false;
  bool number_is_read_last = false;
  bool number_is_kept = false;
};
Fault fault;

// Whether light barriers fence, and heavy ones are the caller's own fence.
bool fenced = false;

void Fence() {
  TsoExplorer::current()->Do({TsoExplorer::Kind::kFence, 0, 0, 0});
}

struct ModelMemory {
  template <typename T>
  class Atomic : public ModelAtomic<T> {
   public:
    using ModelAtomic<T>::ModelAtomic;
    bool compare_exchange_weak(T& expected, T value, std::memory_order a,
                               std::memory_order b) {
      if (fault.watermark_is_stored) {
        this->store(value);
        return true;
      }
      return ModelAtomic<T>::compare_exchange_weak(expected, value, a, b);
    }
  };
  static void HeavyBarrier() {
    if (fault.no_heavy_barrier) return;
    if (fenced) {
      Fence();
    } else {
      TsoExplorer::current()->Do({TsoExplorer::Kind::kHeavyBarrier, 0, 0, 0});
    }
  }
};
void LightStep() {
  if (fenced && !fault.no_light_fence) Fence();
}

using Handshake = SnapshotHandshake<ModelMemory>;
template <typename T>
using Atomic = ModelMemory::Atomic<T>;

SuperVersion* At(uint64_t address) {
  return reinterpret_cast<SuperVersion*>(address);
}
uint64_t AddressOf(SuperVersion* super_version) {
  return reinterpret_cast<uint64_t>(super_version);
}

void Expect(bool condition, const char* what) {
  TsoExplorer::current()->Expect(condition, what);
}

class SnapshotHandshakeTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    fault = Fault();
    fenced = GetParam();
  }
  void TearDown() override { fault = Fault(); }
};

std::string Run(TsoExplorer* explorer, const std::function<void()>& judge) {
  const std::string complaint = explorer->Explore(judge);
  printf("%zu states, %zu ends: %s\n", explorer->states(), explorer->ends(),
         complaint.empty() ? "all good" : complaint.c_str());
  return complaint;
}

// ---- Snapshots against compactions ------------------------------------------

// Versions of one key, one per update. A snapshot of number n sees version n.
// `dropped` has a bit for each that a compaction has dropped.
struct Versions {
  Atomic<SequenceNumber> last_sequence{1};
  Handshake handshake;
  Handshake::Words nodes[2];
  Atomic<uint64_t> dropped[2];  // By each of two compactions.

  void Write(SequenceNumber sequence) { last_sequence.store(sequence); }

  void Take(int node) {
    Handshake::Words* const words = &nodes[node];
    if (fault.watermark_is_ignored) {
      words->sequence.store(last_sequence.load());
      LightStep();
      return;
    }
    handshake.Take(words, last_sequence, LightStep);
  }

  // `lookups`: nodes that the scan goes through. The job reads all versions up
  // to its low_watermark, the most that it may.
  void Compact(int job, int lookups) {
    const SequenceNumber newest = handshake.RaiseLowWatermark(last_sequence);
    uint64_t seen = 0;  // A bit for each number.
    for (int i = 0; i < lookups; ++i) {
      const SequenceNumber sequence = Handshake::Sequence(nodes[i]);
      if (sequence != kNoSnapshot) seen |= uint64_t{1} << sequence;
    }
    uint64_t drop = 0;
    for (SequenceNumber version = 1; version < newest; ++version) {
      if ((seen >> version & 1) == 0) drop |= uint64_t{1} << version;
    }
    dropped[job].store(drop);
  }

  void Judge() {
    for (const Handshake::Words& node : nodes) {
      const SequenceNumber sequence = node.sequence.Final();
      if (sequence == kNoSnapshot) continue;
      const uint64_t gone = dropped[0].Final() | dropped[1].Final();
      Expect((gone >> sequence & 1) == 0, "a snapshot's version was dropped");
    }
  }
};

// Two compactions, while a snapshot is taken.
std::string TakeAmongCompactions() {
  TsoExplorer explorer;
  Versions v;
  explorer.AddThread([&v] { v.Write(2); });
  explorer.AddThread([&v] { v.Take(0); });
  explorer.AddThread([&v] { v.Compact(0, 1); });
  explorer.AddThread([&v] { v.Compact(1, 1); });
  return Run(&explorer, [&v] { v.Judge(); });
}

// The node that a snapshot is taken in was released by another thread.
std::string RetakeWhileCompacting() {
  TsoExplorer explorer;
  Versions v;
  Atomic<uint64_t> handed_over{0};
  explorer.AddThread([&v] { v.Write(2); });
  explorer.AddThread([&] {
    v.Take(0);
    handed_over.store(1);
    if (Handshake::Sequence(v.nodes[0]) == kNoSnapshot) v.Take(0);
  });
  explorer.AddThread([&] {
    if (handed_over.load() == 1) Handshake::Release(&v.nodes[0]);
  });
  explorer.AddThread([&v] { v.Compact(0, 1); });
  return Run(&explorer, [&v] { v.Judge(); });
}

// Two threads' nodes and one scan.
std::string TwoTake() {
  TsoExplorer explorer;
  Versions v;
  explorer.AddThread([&v] { v.Write(2); });
  explorer.AddThread([&v] { v.Take(0); });
  explorer.AddThread([&v] { v.Take(1); });
  explorer.AddThread([&v] { v.Compact(0, 2); });
  return Run(&explorer, [&v] { v.Judge(); });
}

TEST_P(SnapshotHandshakeTest, CompactionKeepsVersionsOfSnapshots) {
  EXPECT_EQ(TakeAmongCompactions(), "");
  EXPECT_EQ(RetakeWhileCompacting(), "");
  EXPECT_EQ(TwoTake(), "");
}

TEST_P(SnapshotHandshakeTest, B21NumberIsAnnouncedInStoreBuffer) {
  // Where barriers are fences, what raises the low_watermark is one itself.
  fault.no_heavy_barrier = !fenced;
  fault.no_light_fence = fenced;
  EXPECT_NE(TakeAmongCompactions(), "");
}

TEST_P(SnapshotHandshakeTest, B22NumberIsAnnouncedAfterTheScan) {
  fault.watermark_is_ignored = true;
  EXPECT_NE(TakeAmongCompactions(), "");
  EXPECT_NE(TwoTake(), "");
}

TEST_P(SnapshotHandshakeTest, B28WatermarkIsLowered) {
  fault.watermark_is_stored = true;
  EXPECT_NE(TakeAmongCompactions(), "");
}

// ---- Pins against installs --------------------------------------------------

// SuperVersions 1 to 3. 1 is the current one.
struct Pins {
  static constexpr SequenceNumber kNoLimit = 100;

  Atomic<SequenceNumber> last_sequence{1};
  Handshake handshake;
  Handshake::Words nodes[2];
  Atomic<uint64_t> mutex{0};
  Atomic<uint64_t> refs[4];  // One reference for being current, now or later.
  Atomic<uint64_t> freed[4];
  Atomic<uint64_t> handed_over{0};

  // Before the exploration.
  void Start(uint64_t current, uint64_t last) {
    handshake.PublishLocked(At(current));
    for (uint64_t i = 1; i <= last; ++i) refs[i].store(1);
  }

  void Unref(SuperVersion* super_version) {
    if (super_version == nullptr) return;
    const uint64_t i = AddressOf(super_version);
    const uint64_t before = refs[i].fetch_add(~uint64_t{0});
    Expect(before > 0, "a reference was released twice");
    if (before == 1) freed[i].fetch_add(1);
  }

  void Install(uint64_t old, uint64_t next, int node_count) {
    mutex.Lock();
    handshake.PublishLocked(At(next));
    ModelMemory::HeavyBarrier();
    for (int i = 0; i < node_count; ++i) {
      if (handshake.CountLocked(&nodes[i], At(old))) refs[old].fetch_add(1);
      if (fault.new_pins_are_counted &&
          handshake.CountLocked(&nodes[i], At(next))) {
        refs[next].fetch_add(1);
      }
    }
    Unref(At(old));
    mutex.Unlock();
  }

  void Take(int node) {
    Handshake::Words* const words = &nodes[node];
    if (!handshake.TakePinned(words, last_sequence, LightStep) &&
        !fault.repin_is_skipped) {
      const SequenceNumber before = Handshake::Sequence(*words);
      mutex.Lock();
      Unref(handshake.RepinLocked(words, last_sequence, LightStep));
      mutex.Unlock();
      if (fault.number_is_kept) words->sequence.store(before);
    }
    if (fault.number_is_read_last) {
      handshake.Take(words, last_sequence, LightStep);
    }
  }
  // `limit`: of the number of what SuperVersion 1 has. `least`: of the number
  // of what SuperVersion 2 still has.
  void Use(int node, SequenceNumber limit, SequenceNumber least) {
    SuperVersion* const pin = Handshake::Pin(nodes[node]);
    Expect(freed[AddressOf(pin)].load() == 0, "what is pinned was freed");
    if (AddressOf(pin) == 1) {
      Expect(Handshake::Sequence(nodes[node]) <= limit,
             "an update is not in what is pinned");
    } else {
      Expect(Handshake::Sequence(nodes[node]) >= least,
             "a version is not in what is pinned any more");
    }
  }
  void End(int node) {
    Handshake::Words* const words = &nodes[node];
    SuperVersion* const pin = Handshake::Pin(*words);
    if (fault.release_comes_first) Handshake::Release(words);
    if (!handshake.Unpin(words, LightStep) && !fault.uncount_is_skipped) {
      mutex.Lock();
      Unref(handshake.UncountLocked(words, pin));
      mutex.Unlock();
    }
    if (!fault.release_comes_first) Handshake::Release(words);
  }

  // No node is in use, and `current` is.
  // A whole transaction in the first node.
  void Transact(uint64_t limit = kNoLimit, uint64_t least = 0) {
    Take(0);
    Use(0, limit, least);
    End(0);
  }

  void Judge(uint64_t current, uint64_t last) {
    for (const Handshake::Words& node : nodes) {
      if (node.sequence.Final() != kNoSnapshot) return;
      Expect(!node.counted.Final(), "a free node is counted");
    }
    for (uint64_t i = 1; i <= last; ++i) {
      Expect(refs[i].Final() == (i == current ? 1 : 0),
             "a reference was not released");
      Expect(freed[i].Final() == (i == current ? 0 : 1),
             "not freed exactly once");
    }
  }
};

// One transaction, begun and ended while two SuperVersions are installed.
std::string PinAmongInstalls() {
  TsoExplorer explorer;
  Pins p;
  p.Start(1, 3);
  explorer.AddThread([&p] { p.Transact(); });
  explorer.AddThread([&p] {
    p.Install(1, 2, 1);
    p.Install(2, 3, 1);
  });
  return Run(&explorer, [&p] { p.Judge(3, 3); });
}

// Ended by another thread, and its node used anew by its own.
std::string HandOverAmongInstalls() {
  TsoExplorer explorer;
  Pins p;
  p.Start(1, 2);
  explorer.AddThread([&p] {
    p.Take(0);
    p.handed_over.store(1);
    if (Handshake::Sequence(p.nodes[0]) != kNoSnapshot) return;
    p.Transact();
  });
  explorer.AddThread([&p] {
    if (p.handed_over.load() == 1) p.End(0);
  });
  explorer.AddThread([&p] { p.Install(1, 2, 1); });
  return Run(&explorer, [&p] { p.Judge(2, 2); });
}

// The second install is of a SuperVersion at the address of the first one, if
// that was freed.
std::string PinWhileAddressIsReused() {
  TsoExplorer explorer;
  Pins p;
  p.Start(1, 2);
  explorer.AddThread([&p] { p.Transact(); });
  explorer.AddThread([&p] {
    p.Install(1, 2, 1);
    if (p.freed[1].load() == 0) return;
    p.freed[1].fetch_add(~uint64_t{0});
    p.refs[1].fetch_add(1);
    p.Install(2, 1, 1);
  });
  return Run(&explorer, [&p] {
    const uint64_t current = p.refs[1].Final() == 1 ? 1 : 2;
    p.Judge(current, 2);
  });
}

// A memtable is switched, then written to.
std::string PinWhileMemTableIsSwitched() {
  TsoExplorer explorer;
  Pins p;
  p.Start(1, 2);
  explorer.AddThread([&p] { p.Transact(1); });
  explorer.AddThread([&p] {
    p.Install(1, 2, 1);
    p.last_sequence.store(2);
  });
  return Run(&explorer, [&p] { p.Judge(2, 2); });
}

// A follower shows tables without the versions that its old number needs.
std::string PinWhileAFollowerCatchesUp() {
  TsoExplorer explorer;
  Pins p;
  p.Start(1, 2);
  explorer.AddThread([&p] { p.Transact(Pins::kNoLimit, 2); });
  explorer.AddThread([&p] {
    p.last_sequence.store(2);
    p.Install(1, 2, 1);
  });
  return Run(&explorer, [&p] { p.Judge(2, 2); });
}

TEST_P(SnapshotHandshakeTest, PinnedObjectsLiveAndAreFreedOnce) {
  EXPECT_EQ(PinAmongInstalls(), "");
  EXPECT_EQ(HandOverAmongInstalls(), "");
}

TEST_P(SnapshotHandshakeTest, B24LoadedObjectIsFreedBeforeItIsPinned) {
  fault.repin_is_skipped = true;
  EXPECT_NE(PinAmongInstalls(), "");
}

TEST_P(SnapshotHandshakeTest, B21PinIsAnnouncedInStoreBuffer) {
  fault.no_heavy_barrier = true;
  EXPECT_NE(PinAmongInstalls(), "");
  if (!fenced) return;
  fault = Fault();
  fault.no_light_fence = true;
  EXPECT_NE(PinAmongInstalls(), "");
}

TEST_P(SnapshotHandshakeTest, B25PinIsClearedAndCounted) {
  fault.uncount_is_skipped = true;
  EXPECT_NE(PinAmongInstalls(), "");
}

TEST_P(SnapshotHandshakeTest, B26NodeIsUsedAnewBeforeItsPinIsReleased) {
  fault.release_comes_first = true;
  EXPECT_NE(HandOverAmongInstalls(), "");
}

TEST_P(SnapshotHandshakeTest, B27AddressIsReused) {
  EXPECT_EQ(PinWhileAddressIsReused(), "");
}

TEST_P(SnapshotHandshakeTest, B29NumberIsNewerThanThePinnedView) {
  EXPECT_EQ(PinWhileMemTableIsSwitched(), "");
  fault.number_is_read_last = true;
  EXPECT_NE(PinWhileMemTableIsSwitched(), "");
}

TEST_P(SnapshotHandshakeTest, B30NewPinIsCounted) {
  fault.new_pins_are_counted = true;
  EXPECT_NE(PinAmongInstalls(), "");
}

TEST_P(SnapshotHandshakeTest, B31NumberIsOlderThanAFollowersTables) {
  EXPECT_EQ(PinWhileAFollowerCatchesUp(), "");
  fault.number_is_kept = true;
  EXPECT_NE(PinWhileAFollowerCatchesUp(), "");
}

INSTANTIATE_TEST_SUITE_P(Barriers, SnapshotHandshakeTest, ::testing::Bool(),
                         [](const auto& form) {
                           return form.param ? "Fenced" : "Asymmetric";
                         });

}  // namespace
}  // namespace varve::test
