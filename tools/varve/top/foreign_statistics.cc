// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/top/foreign_statistics.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#include "tools/varve/varve_text.h"

namespace varve {

namespace {

using Layout = StatisticsCells;

// The cells before the buckets, which are read with one call.
constexpr size_t kHeadCells = Layout::kFirstBucket;
// More would be no process of this machine's.
constexpr uint64_t kMaxSets = 1 << 16;
// The list of a damaged process may have no end.
constexpr int kMaxAccounts = 1 << 16;

// One set of cells that was read.
class CopiedCells final : public StatisticsCellSets {
 public:
  explicit CopiedCells(const std::vector<uint64_t>& cells)
      : cells_(cells.size()) {
    for (size_t i = 0; i < cells.size(); ++i) {
      // relaxed: no other thread knows it yet.
      cells_[i].store(cells[i], std::memory_order_relaxed);
    }
  }
  void Add(size_t /*cell*/, uint64_t /*count*/) override {}
  void Record(size_t /*bounds*/, size_t /*cell*/, uint64_t /*value*/) override {
  }
  void ForEachSet(
      const std::function<void(const Cell*)>& function) const override {
    function(cells_.data());
  }
  const char* Path() const override { return "copied"; }
  uint64_t used_bytes() const override { return 0; }
  uint64_t reserved_bytes() const override { return 0; }

 private:
  std::vector<Cell> cells_;
};

std::unique_ptr<StatisticsImpl> StatisticsOf(
    const std::vector<uint64_t>& cells) {
  return std::make_unique<StatisticsImpl>(StatisticsOptions(),
                                          std::make_unique<CopiedCells>(cells));
}

// Returns the address of the page of that name, or 0.
uint64_t FindPage(uint64_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t address = 0;
    if (line.find(kPublishedName) != line.npos &&
        ParseNumber(line.substr(0, line.find('-')), 16, &address)) {
      return address;
    }
  }
  return 0;
}

}  // namespace

bool ForeignStatistics::Copy(uint64_t address, void* to, size_t bytes) const {
  const iovec local = {to, bytes};
  const iovec remote = {reinterpret_cast<void*>(address), bytes};
  const ssize_t copied =
      process_vm_readv(static_cast<pid_t>(pid_), &local, 1, &remote, 1, 0);
  if (copied >= 0 && static_cast<size_t>(copied) < bytes) errno = EFAULT;
  return copied == static_cast<ssize_t>(bytes);
}

bool ForeignStatistics::AddSet(uint64_t address, Cells* sum) const {
  Cells head(kHeadCells);
  if (!Copy(address, head.data(), head.size() * sizeof(uint64_t))) return false;
  for (size_t i = 0; i < Layout::SumOf(0); ++i) (*sum)[i] += head[i];
  for (size_t i = 0; i < kHistogramCount; ++i) {
    (*sum)[Layout::SumOf(i)] += head[Layout::SumOf(i)];
    uint64_t* const bounds = &(*sum)[Layout::BoundsOf(i)];
    const uint64_t largest = head[Layout::BoundsOf(i)];
    const uint64_t complement = head[Layout::BoundsOf(i) + 1];
    if (largest == 0 && complement == 0) continue;  // Nothing in it.
    bounds[0] = std::max(bounds[0], largest);
    bounds[1] = std::max(bounds[1], complement);
    const size_t first = Histogram::BucketOf(~complement);
    const size_t last = Histogram::BucketOf(largest);
    if (first > last) continue;  // It is being written.
    Cells buckets(last - first + 1);
    if (!Copy(address + Layout::BucketOf(i, first) * sizeof(uint64_t),
              buckets.data(), buckets.size() * sizeof(uint64_t))) {
      return false;
    }
    for (size_t j = 0; j < buckets.size(); ++j) {
      (*sum)[Layout::BucketOf(i, first + j)] += buckets[j];
    }
  }
  return true;
}

bool ForeignStatistics::ReadMemory(const PublishedMemory& memory) {
  uint64_t sums[kMemoryKinds] = {};
  const auto add = [&sums](const MemoryAccount& account) {
    for (int kind = 0; kind < kMemoryKinds; ++kind) {
      sums[kind] +=
          ReadMemoryAccount(account, static_cast<MemoryKind>(kind)).live();
    }
  };
  MemoryAccount account;
  if (!Copy(memory.shared_account, &account, sizeof(account))) return false;
  add(account);
  uint64_t address = 0;
  if (!Copy(memory.first_account, &address, sizeof(address))) return false;
  for (int i = 0; address != 0; ++i) {
    ListedMemoryAccount listed;
    if (i == kMaxAccounts) {
      errno = ELOOP;
      return false;
    }
    if (!Copy(address, &listed, sizeof(listed))) return false;
    add(listed.account);
    address = reinterpret_cast<uintptr_t>(listed.next);
  }
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    // Below zero if memory was freed while the accounts were copied.
    memory_bytes_[kind] = static_cast<int64_t>(sums[kind]) < 0 ? 0 : sums[kind];
  }
  return true;
}

Status ForeignStatistics::Read() {
  const std::string who = "process " + std::to_string(pid_);
  if (page_ == 0) page_ = FindPage(pid_);
  if (page_ == 0) {
    return Status::NotFound(
        who,
        "publishes no statistics: it has none, is of an older version of "
        "Varve, or is not this user's");
  }
  PublishedPage published;
  const PublishedStatistics& page = published.statistics;
  if (!Copy(page_, &published, sizeof(published))) {
    const int error = errno;
    page_ = 0;
    if (error != EPERM) return Status::FromErrno("read " + who, error);
    return Status::IOError(
        who,
        "may not be read: run varve top as root, or as its user with "
        "kernel.yama.ptrace_scope=0");
  }
  if (page.magic != PublishedStatistics::kMagic ||
      page.layout != PublishedLayout()) {
    return Status::NotSupported(
        who, "runs another version of Varve than this program");
  }
  if (!ReadMemory(published.memory)) {
    return Status::FromErrno("read the memory accounts of " + who, errno);
  }
  Cells sum(Layout::kCount);
  count_ = 0;
  for (const PublishedStatistics::Entry& entry : page.entries) {
    // relaxed: it is a copy.
    const uint64_t address = entry.address.load(std::memory_order_relaxed);
    if (address == 0 || entry.set_count > kMaxSets ||
        entry.set_bytes != PerCpuStatisticsCells::kSetBytes) {
      continue;
    }
    Cells extended = sum;
    bool is_whole = true;
    for (uint64_t i = 0; i < entry.set_count && is_whole; ++i) {
      is_whole = AddSet(address + i * entry.set_bytes, &extended);
    }
    if (!is_whole) continue;  // Its database was closed just now.
    ++count_;
    sum = std::move(extended);
  }
  before_ = std::exchange(now_, std::move(sum));
  if (before_.empty()) before_ = now_;
  return Status::OK();
}

std::unique_ptr<StatisticsImpl> ForeignStatistics::Total() const {
  return StatisticsOf(now_);
}

std::unique_ptr<StatisticsImpl> ForeignStatistics::SinceLast() const {
  Cells difference = now_;
  for (size_t i = 0; i < difference.size(); ++i) {
    // Of a Statistics that was destroyed in between, nothing is left.
    difference[i] -= std::min(difference[i], before_[i]);
  }
  for (size_t i = 0; i < kHistogramCount; ++i) {
    const size_t bounds = Layout::BoundsOf(i);
    difference[bounds] = now_[bounds];
    difference[bounds + 1] = now_[bounds + 1];
  }
  return StatisticsOf(difference);
}

}  // namespace varve
