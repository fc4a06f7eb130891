// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/comparator.h"

#include "compat/leveldb/convert.h"

namespace leveldb {
namespace {

class Bytewise final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    return varve::compat::ToVarve(a).compare(varve::compat::ToVarve(b));
  }
  const char* Name() const override { return Target()->Name(); }
  void FindShortestSeparator(std::string* start,
                             const Slice& limit) const override {
    Target()->FindShortestSeparator(start, varve::compat::ToVarve(limit));
  }
  void FindShortSuccessor(std::string* key) const override {
    Target()->FindShortSuccessor(key);
  }

 private:
  static const varve::Comparator* Target() {
    return varve::BytewiseComparator();
  }
};

}  // namespace

// Never destroyed: programs use it in destructors of static objects.
const Comparator* BytewiseComparator() {
  static const Comparator* const comparator = new Bytewise;
  return comparator;
}

}  // namespace leveldb

namespace varve::compat {

int ProgramComparator::Compare(const Slice& a, const Slice& b) const {
  return target_->Compare(ToLevelDb(a), ToLevelDb(b));
}

void ProgramComparator::FindShortestSeparator(std::string* start,
                                              const Slice& limit) const {
  target_->FindShortestSeparator(start, ToLevelDb(limit));
}

void ProgramComparator::FindShortSuccessor(std::string* key) const {
  target_->FindShortSuccessor(key);
}

Status MakeComparator(const leveldb::Comparator* target,
                      std::unique_ptr<Comparator>* owner,
                      const Comparator** comparator) {
  if (target == nullptr) {
    return Status::InvalidArgument("Options::comparator is null");
  }
  if (target == leveldb::BytewiseComparator()) {
    *comparator = BytewiseComparator();
    return Status::OK();
  }
  const char* name = target->Name();
  if (name == nullptr) {
    return Status::InvalidArgument("the name of the comparator is null");
  }
  *owner = std::make_unique<ProgramComparator>(target, name);
  *comparator = owner->get();
  return Status::OK();
}

}  // namespace varve::compat
