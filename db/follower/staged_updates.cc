// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/follower/staged_updates.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "db/family/column_family.h"

namespace varve {

namespace {

// More records than these go to memtables at once.
constexpr size_t kMaxKeptBytes = size_t{8} << 20;

// Replays records of a log.
class Replay final : public MemTableChooser, public SectionKeeper {
 public:
  using Chooser = std::function<MemTable*(uint32_t, ColumnFamily*)>;

  Replay(const ManifestView& view, uint64_t log, PreparedSet* prepared,
         Chooser chooser)
      : view_(view),
        log_(log),
        prepared_(prepared),
        chooser_(std::move(chooser)) {}

  MemTable* Choose(uint32_t id) override {
    const auto found = view_.families().find(id);
    if (found == view_.families().end() || found->second.opened == nullptr ||
        log_ < found->second.log_number) {
      return nullptr;  // Dropped, or not opened, or in tables.
    }
    return chooser_(id, found->second.opened);
  }
  Status Prepare(const Slice& name, const Slice& records,
                 uint32_t count) override {
    PreparedSection section{name.ToString(), {}};
    Status status = ReadSection(records, count, &section.updates);
    if (status.ok()) prepared_->Add(std::move(section), log_);
    return status;
  }
  WriteBatch* Commit(const Slice& name) override {
    const std::shared_ptr<PreparedSet::Held> held = prepared_->Find(name);
    if (held == nullptr) return nullptr;  // It is in tables.
    // Not the section itself: this may be tried again.
    committed_ = held->section.updates;
    prepared_->End(name, log_);
    return &committed_;
  }
  void Rollback(const Slice& name) override { prepared_->End(name, 0); }

 private:
  const ManifestView& view_;
  const uint64_t log_;
  PreparedSet* const prepared_;
  const Chooser chooser_;
  WriteBatch committed_;
};

Status CheckUpdate(const BatchRecord& update, uint64_t log,
                   const ManifestView& view, bool* updates) {
  const auto family = view.families().find(update.family);
  if (family == view.families().end()) {
    if (update.family <= view.max_column_family) return Status::OK();
    return Status::Corruption("an update of column family " +
                              std::to_string(update.family) +
                              ", which never existed");
  }
  *updates = true;
  const bool is_used =
      family->second.opened != nullptr && log >= family->second.log_number;
  return is_used && update.unsupported != nullptr
             ? Status::NotSupported(update.unsupported)
             : Status::OK();
}

}  // namespace

Status CheckRecord(const Slice& record, uint64_t log, const ManifestView& view,
                   bool* updates) {
  *updates = false;
  BatchReader reader;
  Status status = reader.Init(record);
  LogRecord part;
  bool done = false;
  while (status.ok()) {
    status = reader.NextInLog(&part, &done);
    if (!status.ok() || done) break;
    if (part.mark != BatchTag::kNoop) {
      *updates = true;
    } else if (!part.is_log_data) {
      status = CheckUpdate(part, log, view, updates);
    }
  }
  return status;
}

StagedUpdates::~StagedUpdates() {
  for (const auto& [id, memtables] : memtables_) {
    for (MemTable* const memtable : memtables) {
      if (memtable->Unref()) delete memtable;
    }
  }
}

Status StagedUpdates::Add(const Slice& record, uint64_t log,
                          const ManifestView& view,
                          const PreparedSet& prepared) {
  if (in_memtables_) return AddToNew(record, log, view);
  records_.push_back({bytes_.size(), record.size(), log});
  bytes_.append(record.data(), record.size());
  return bytes_.size() <= kMaxKeptBytes ? Status::OK()
                                        : MoveToMemTables(view, prepared);
}

Status StagedUpdates::MoveToMemTables(const ManifestView& view,
                                      const PreparedSet& prepared) {
  if (in_memtables_) return Status::OK();
  in_memtables_ = true;
  prepared_ = prepared;
  Status status;
  for (const Record& record : records_) {
    if (!status.ok()) break;
    status = AddToNew(Slice(bytes_.data() + record.begin, record.size),
                      record.log, view);
  }
  records_ = {};
  bytes_ = {};
  return status;
}

uint64_t StagedUpdates::OnlyLog() const {
  if (records_.empty() || records_.front().log != records_.back().log) return 0;
  return records_.front().log;
}

Status StagedUpdates::AddToNew(const Slice& record, uint64_t log,
                               const ManifestView& view) {
  Replay replay(view, log, &*prepared_,
                [this, log](uint32_t id, const ColumnFamily* family) {
                  std::vector<MemTable*>& mine = memtables_[id];
                  if (mine.empty() || mine.back()->wal_number() != log) {
                    mine.push_back(family->memtables().New(log));
                  }
                  return mine.back();
                });
  SequenceNumber next = 0;
  Status status = InsertLogRecord(record, &replay, &replay, &next);
  if (status.ok() && next > 0)
    last_sequence_ = std::max(last_sequence_, next - 1);
  return status;
}

Status StagedUpdates::AddToCurrent(const ManifestView& view,
                                   PreparedSet* prepared) {
  Status status;
  for (const Record& record : records_) {
    Replay replay(view, record.log, prepared,
                  [](uint32_t, const ColumnFamily* family) {
                    return family->memtable();
                  });
    SequenceNumber next = 0;
    status = InsertLogRecord(Slice(bytes_.data() + record.begin, record.size),
                             &replay, &replay, &next);
    if (!status.ok()) break;
    if (next > 0) last_sequence_ = std::max(last_sequence_, next - 1);
  }
  return status;
}

}  // namespace varve
