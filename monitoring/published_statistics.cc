// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/published_statistics.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <string>
#include <string_view>

#include "monitoring/memory_accounting.h"
#include "monitoring/published_memory.h"
#include "monitoring/statistics.h"
#include "util/base/mutex.h"
#include "util/base/process_wide.h"
#include "util/bytes/hash.h"

namespace varve {

namespace {

class Page {
 public:
  Page() {
    // Private, so that a child of fork() has a list of its own copies.
    const int file = memfd_create("varve.statistics", MFD_CLOEXEC);
    if (file < 0) return;
    void* memory = MAP_FAILED;
    if (ftruncate(file, sizeof(PublishedPage)) == 0) {
      memory = mmap(nullptr, sizeof(PublishedPage), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE, file, 0);
    }
    close(file);
    if (memory == MAP_FAILED) return;
    published_ = &(new (memory) PublishedPage)->statistics;
    published_->layout = PublishedLayout();
  }

  PublishedStatistics::Entry* Add(const void* sets, size_t set_bytes,
                                  size_t set_count) {
    if (published_ == nullptr) return nullptr;
    MutexLock lock(&mutex_);
    for (PublishedStatistics::Entry& entry : published_->entries) {
      // relaxed: it changes under the mutex only.
      if (entry.address.load(std::memory_order_relaxed) != 0) continue;
      entry.set_bytes = set_bytes;
      entry.set_count = set_count;
      // release: a reader of another process that sees the address sees the
      // sizes, too. It pairs with that process's copying of the page.
      entry.address.store(reinterpret_cast<uintptr_t>(sets),
                          std::memory_order_release);
      return &entry;
    }
    return nullptr;
  }
  void Remove(PublishedStatistics::Entry* entry) {
    MutexLock lock(&mutex_);
    // relaxed: the mutex orders it for the next Add. A reader that comes too
    // late reads what is there, or fails.
    entry->address.store(0, std::memory_order_relaxed);
  }

 private:
  Mutex mutex_;
  PublishedStatistics* published_ = nullptr;  // Never freed.
};

Page& ThePage() {
  static constinit ProcessWide<Page> page;
  return page.Get([] { return std::make_unique<Page>(); });
}

}  // namespace

uint64_t PublishedLayout() {
  // The names in their order, and the geometry.
  std::string text;
  const auto add = [&text](std::string_view word) {
    text.append(word).push_back('\0');
  };
  for (size_t i = 0; i < kTickerCount; ++i) {
    add(TickerName(static_cast<Ticker>(i)));
  }
  for (size_t i = 0; i < kHistogramCount; ++i) {
    add(HistogramName(static_cast<HistogramType>(i)));
  }
  for (size_t i = 0; i < kCounterGroupCount; ++i) {
    for (const Ticker ticker : GroupTickers(static_cast<CounterGroup>(i))) {
      add(TickerName(ticker));
    }
    add("");
  }
  for (int i = 0; i < kMemoryKinds; ++i) {
    add(MemoryKindName(static_cast<MemoryKind>(i)));
  }
  return PreviewXxh3(text) + sizeof(ListedMemoryAccount) + Histogram::kBuckets +
         StatisticsCells::kCount;
}

PublishedStatistics::Entry* PublishStatistics(const void* sets,
                                              size_t set_bytes,
                                              size_t set_count) {
  return ThePage().Add(sets, set_bytes, set_count);
}

void WithdrawStatistics(PublishedStatistics::Entry* entry) {
  if (entry != nullptr) ThePage().Remove(entry);
}

}  // namespace varve
