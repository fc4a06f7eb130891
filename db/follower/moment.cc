// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/follower/moment.h"

#include <utility>

namespace varve {

namespace {

class Moment final : public FamilyMoment {
 public:
  explicit Moment(FamilySet* families) : families_(families) {}
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  // The analysis does not know that the caller has the mutex.
  ~Moment() override VARVE_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& [cache, pinned] : pinned_) {
      pinned.family->super_versions().ReleaseLocked(pinned.super_version);
      families_->UnrefLocked(pinned.family);
    }
  }

  void AddLocked(ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
    SuperVersion* const current = family->super_versions().current();
    current->refs.Ref();
    family->Ref();
    pinned_[&family->super_versions()] = {family, current};
  }
  SuperVersion* Find(const SuperVersionCache* family) const override {
    const auto found = pinned_.find(family);
    return found != pinned_.end() ? found->second.super_version : nullptr;
  }

 private:
  struct Pinned {
    ColumnFamily* family;
    SuperVersion* super_version;
  };

  FamilySet* const families_;
  std::unordered_map<const SuperVersionCache*, Pinned> pinned_;
};

}  // namespace

std::unique_ptr<const FamilyMoment> NewMomentLocked(FamilySet* families) {
  if (!families->HasOthers()) return nullptr;
  auto moment = std::make_unique<Moment>(families);
  for (ColumnFamily* const family : families->live()) {
    if (family != families->default_family()) moment->AddLocked(family);
  }
  return moment;
}

}  // namespace varve
