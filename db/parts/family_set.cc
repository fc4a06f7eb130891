// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/parts/family_set.h"

#include <iterator>

namespace varve {

ColumnFamily* FamilySet::Search(uint32_t id) const {
  const auto place = std::lower_bound(ids_.begin(), ids_.end(), id);
  return place != ids_.end() && *place == id ? live_[place - ids_.begin()]
                                             : nullptr;
}

ColumnFamily* FamilySet::Find(const std::string& name) const {
  for (ColumnFamily* family : live_) {
    if (family->name() == name) return family;
  }
  return nullptr;
}

void FamilySet::AddLocked(std::unique_ptr<ColumnFamily> family) {
  const auto place = std::lower_bound(ids_.begin(), ids_.end(), family->id());
  live_.insert(live_.begin() + (place - ids_.begin()), family.get());
  ids_.insert(place, family->id());
  others_.push_back(std::move(family));
}

void FamilySet::DropLocked(ColumnFamily* family) {
  std::erase(live_, family);
  std::erase(ids_, family->id());
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
  ids_.resize(1);
  std::vector<std::unique_ptr<ColumnFamily>> all = std::exchange(others_, {});
  std::move(dead_.begin(), dead_.end(), std::back_inserter(all));
  dead_.clear();
  return all;
}

}  // namespace varve
