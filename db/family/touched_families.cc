// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/family/touched_families.h"

namespace varve {

namespace {

void CutDeadRangesOf(const FamilySet& families,
                     const WriteQueue::Writer& writer) {
  if (writer.update != nullptr) {
    if (!IsDeletion(writer.update->type)) {
      writer.update->family->dead_walks()->leader_ranges()->Cut(
          writer.update->key);
    }
    return;
  }
  BatchReader reader;
  BatchRecord record;
  bool done = false;
  // A batch that cannot be read fails when it is inserted.
  if (!reader.Init(writer.batch->Data()).ok()) return;
  ColumnFamily* family = families.default_family();
  while (reader.NextOfOurs(&record, &done).ok() && !done) {
    if (record.is_log_data || record.type == ValueType::kRangeDeletion ||
        IsDeletion(record.type)) {
      continue;
    }
    if (family == nullptr || record.family != family->id()) {
      family = families.Find(record.family);
    }
    // Prepared updates may be of a dropped family.
    if (family == nullptr) continue;
    family->dead_walks()->leader_ranges()->Cut(record.key);
  }
}

}  // namespace

std::vector<ColumnFamily*> TouchedFamilies::All() const {
  std::vector<ColumnFamily*> families;
  ForEach([&families](ColumnFamily* family) { families.push_back(family); });
  return families;
}

bool TouchedFamilies::AreLive() const {
  if (update_ != nullptr) return !update_->family->is_dropped();
  for (const auto& [id, bytes] : WriteBatchInternal::Families(batch_)) {
    if (families_.Find(id) == nullptr) return false;
  }
  return true;
}

bool TouchedFamilies::PaceIsDue() const {
  bool is_due = false;
  ForEach([&is_due](const ColumnFamily* family) {
    is_due |= family->pace().IsDue();
  });
  return is_due;
}

ColumnFamily* TouchedFamilies::MostPressedLocked() const {
  ColumnFamily* most = nullptr;
  int most_rank = -1;
  for (ColumnFamily* const family : All()) {
    const int rank = family->pace().StopCauseLocked() != StallCause::kNone
                         ? 3
                         : static_cast<int>(family->pace().stall().pressure);
    if (rank <= most_rank) continue;
    most = family;
    most_rank = rank;
  }
  return most != nullptr ? most : families_.default_family();
}

void MarkUnlogged(const FamilySet& families, const WriteQueue::Group& group) {
  group.ForEach([&families](const WriteQueue::Writer* writer) {
    if (writer->is_refused) return;
    TouchedFamilies(families, *writer->batch, writer->update)
        .ForEach(
            [](ColumnFamily* family) { family->memtable()->SetHasUnlogged(); });
  });
}

void CutDeadRanges(const FamilySet& families, const WriteQueue::Group& group) {
  group.ForEach([&families](const WriteQueue::Writer* writer) {
    if (writer->is_refused) return;
    bool any = false;
    TouchedFamilies(families, *writer->batch, writer->update)
        .ForEach([&any](const ColumnFamily* family) {
          any |= !family->dead_walks()->ranges().empty();
        });
    if (any) CutDeadRangesOf(families, *writer);
  });
}

}  // namespace varve
