// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Kernels whose cores wait for each other, written for the simulated memory,
// and kernels of a library.

#include <dlfcn.h>

#include <filesystem>

#include "tools/cores_bench/topics.h"

namespace varve::cores {

namespace {

// Addresses: each of these has a line of its own.
constexpr uint64_t kGuarded = 0;
constexpr uint64_t kLock = 128;
constexpr uint64_t kServing = 256;
constexpr uint64_t kNodes = 1024;  // Of the queue, one for each core.
constexpr uint64_t kNodeBytes = 128;
constexpr uint64_t kWaits = 8;  // In a node, after the next one's number.

// Instructions with the lock held, and without it.
constexpr uint32_t kInside = 100;
constexpr uint32_t kOutside = 100;

// ---- An addition ------------------------------------------------------------

void AddAtOnce(varve_core* core) { core->add(core, kGuarded, 1); }

void AddByCompareAndSwap(varve_core* core) {
  uint64_t expected = core->load(core, kGuarded);
  for (;;) {
    const uint64_t before =
        core->compare_exchange(core, kGuarded, expected, expected + 1);
    if (before == expected) return;
    expected = before;
  }
}

// ---- Locks ------------------------------------------------------------------

// The critical section of a lock.
void AddSlowly(varve_core* core) {
  const uint64_t value = core->load(core, kGuarded);
  core->work(core, kInside);
  core->store(core, kGuarded, value + 1);
}

void WithTestAndSet(varve_core* core) {
  while (core->exchange(core, kLock, 1) != 0) {
  }
  AddSlowly(core);
  core->store(core, kLock, 0);
  core->work(core, kOutside);
}

void WithTicket(varve_core* core) {
  const uint64_t ticket = core->add(core, kLock, 1);
  uint64_t serving = core->load(core, kServing);
  while (serving != ticket) {
    serving = core->wait_while(core, kServing, serving);
  }
  AddSlowly(core);
  core->store(core, kServing, ticket + 1);
  core->work(core, kOutside);
}

// The queue of Mellor-Crummey and Scott. kLock has the number of its last
// node, from 1; 0: none.
uint64_t NodeOf(uint64_t number) { return kNodes + number * kNodeBytes; }

void WithQueue(varve_core* core) {
  const uint64_t number = core->number + 1;
  const uint64_t node = NodeOf(number);
  core->store(core, node, 0);
  const uint64_t before = core->exchange(core, kLock, number);
  if (before != 0) {
    core->store(core, node + kWaits, 1);
    core->store(core, NodeOf(before), number);
    core->wait_while(core, node + kWaits, 1);
  }
  AddSlowly(core);
  uint64_t next = core->load(core, node);
  if (next == 0 && core->compare_exchange(core, kLock, number, 0) != number) {
    next = core->wait_while(core, node, 0);
  }
  if (next != 0) core->store(core, NodeOf(next) + kWaits, 0);
  core->work(core, kOutside);
}

constexpr varve_kernel kAdditions[] = {
    {"fetch-add", AddAtOnce},
    {"compare-and-swap", AddByCompareAndSwap},
};
constexpr varve_kernel kLocks[] = {
    {"test-and-set", WithTestAndSet},
    {"ticket", WithTicket},
    {"queue", WithQueue},
};

Variant Executed(const varve_kernel& kernel, std::optional<Known> known) {
  return {kernel.name, nullptr, &kernel, known};
}

}  // namespace

std::vector<Topic> ExecutedTopics() {
  return {
      {"kernel-add",
       "an addition to a counter that all cores share",
       {Executed(kAdditions[0], Known{1, 1, "each waits for the line"}),
        Executed(kAdditions[1],
                 Known{1, 0,
                       "1 if each attempt that fails keeps the line for the "
                       "next one, one for each core if none does",
                       0, 1})}},
      {"kernel-lock",
       "an addition to a counter that a spin lock guards",
       {Executed(kLocks[0],
                 Known{3, 3,
                       "the release waits for an attempt of each core; then "
                       "the lock and the counter move",
                       1, 1}),
        Executed(kLocks[1],
                 Known{3, 3, "the tickets, whose turn it is, the counter"}),
        Executed(kLocks[2],
                 Known{5, 5,
                       "the queue's end, the counter, and a node when it is "
                       "linked, read and released"})}},
  };
}

bool LoadKernels(const std::string& file, Topic* topic, std::string* error) {
  // With a slash, since a name alone is looked for elsewhere.
  void* const library =
      dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  const void* const kernels =
      library == nullptr ? nullptr : dlsym(library, "varve_kernels_1");
  if (kernels == nullptr) {
    *error = dlerror();
    return false;
  }
  topic->name = std::filesystem::path(file).stem();
  topic->operation = "an operation of " + file;
  for (auto* kernel = static_cast<const varve_kernel*>(kernels);
       kernel->name != nullptr; ++kernel) {
    topic->variants.push_back(Executed(*kernel, std::nullopt));
  }
  if (!topic->variants.empty()) return true;
  *error = file + " has no kernels";
  return false;
}

}  // namespace varve::cores
