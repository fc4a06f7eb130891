// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <string>

#include "compat/leveldb/abi.h"
#include "varve/comparator.h"
#include "varve/status.h"

namespace varve::compat {

// Calls a program's comparator.
class ProgramComparator final : public Comparator {
 public:
  // Both must outlive this object. `name` is what the comparator's Name()
  // returned at Open; programs compute it or change it.
  ProgramComparator(const leveldb::Comparator* target, std::string name)
      : target_(target), name_(std::move(name)) {}

  int Compare(const Slice& a, const Slice& b) const override;
  const char* Name() const override { return name_.c_str(); }
  void FindShortestSeparator(std::string* start,
                             const Slice& limit) const override;
  void FindShortSuccessor(std::string* key) const override;

 private:
  const leveldb::Comparator* const target_;
  const std::string name_;
};

// Sets *comparator to the comparator of the engine for `target`: the engine's
// own if it is leveldb::BytewiseComparator(), else one that is stored in
// *owner. Returns InvalidArgument if `target` or its name is null.
Status MakeComparator(const leveldb::Comparator* target,
                      std::unique_ptr<Comparator>* owner,
                      const Comparator** comparator);

}  // namespace varve::compat
