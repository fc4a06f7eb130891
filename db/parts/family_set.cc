// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/parts/family_set.h"

#include <iterator>

namespace varve {

ColumnFamily* FamilySet::Find(uint32_t id) const {
  const auto place = std::lower_bound(
      live_.begin(), live_.end(), id,
      [](const ColumnFamily* f, uint32_t wanted) { return f->id() < wanted; });
  return place != live_.end() && (*place)->id() == id ? *place : nullptr;
}

ColumnFamily* FamilySet::Find(const std::string& name) const {
  for (ColumnFamily* family : live_) {
    if (family->name() == name) return family;
  }
  return nullptr;
}

void FamilySet::AddLocked(std::unique_ptr<ColumnFamily> family) {
  const auto place = std::lower_bound(
      live_.begin(), live_.end(), family->id(),
      [](const ColumnFamily* f, uint32_t id) { return f->id() < id; });
  live_.insert(place, family.get());
  others_.push_back(std::move(family));
}

void FamilySet::DropLocked(ColumnFamily* family) {
  std::erase(live_, family);
  UnrefLocked(family);
}

void FamilySet::BuryLocked(ColumnFamily* family) {
  const auto place = std::find_if(
      others_.begin(), others_.end(),
      [family](const auto& owned) { return owned.get() == family; });
  dead_.push_back(std::move(*place));
  others_.erase(place);
}

std::vector<std::unique_ptr<ColumnFamily>> FamilySet::TakeAllLocked() {
  live_.resize(1);
  std::vector<std::unique_ptr<ColumnFamily>> all = std::exchange(others_, {});
  std::move(dead_.begin(), dead_.end(), std::back_inserter(all));
  dead_.clear();
  return all;
}

}  // namespace varve
