// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// layers DIRECTORY: writes down some layers of sediment and reads them back.

#include <iostream>
#include <memory>
#include <string>

#include "varve/db.h"
#include "varve/filter_policy.h"
#include "varve/read_transaction.h"
#include "varve/write_batch.h"

namespace {

// Years are compared by their number: "99" is before "1000".
class ByYear : public varve::Comparator {
 public:
  const char* Name() const override { return "layers.ByYear"; }
  int Compare(const varve::Slice& a, const varve::Slice& b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    return a.compare(b);
  }
  void FindShortestSeparator(std::string*, const varve::Slice&) const override {
  }
  void FindShortSuccessor(std::string*) const override {}
};

varve::Status Run(const std::string& directory) {
  static const ByYear by_year;
  varve::Options options;
  options.create_if_missing = true;
  options.comparator = &by_year;
  options.filter_policy = varve::NewBloomFilterPolicy(10);

  std::unique_ptr<varve::DB> db;
  varve::Status status = varve::DB::Open(options, directory, &db);
  if (!status.ok()) return status;

  // Several updates at once, safe when Write returns.
  varve::WriteBatch batch;
  batch.Put("999", "sand");
  batch.Put("2024", "silt");
  batch.Put("2025", "clay");
  varve::WriteOptions safe;
  safe.sync = true;
  status = db->Write(safe, &batch);
  if (!status.ok()) return status;

  std::string clay;
  status = db->Get(varve::ReadOptions(), "2025", &clay);
  if (!status.ok()) return status;
  std::cout << "2025: " << clay << '\n';
  status = db->Get(varve::ReadOptions(), "2026", &clay);
  if (!status.IsNotFound()) return status;

  // Reads one moment, whatever other threads write at the same time.
  {
    const varve::ReadTransaction moment(db.get());
    status = db->Delete(varve::WriteOptions(), "999");
    if (!status.ok()) return status;
    status = moment.Get(varve::ReadOptions(), "999", &clay);
    if (!status.ok()) return status;
    std::cout << "999 was: " << clay << '\n';
  }

  std::unique_ptr<varve::Iterator> iterator =
      db->NewIterator(varve::ReadOptions());
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    std::cout << iterator->key().ToString() << ' '
              << iterator->value().ToString() << '\n';
  }
  status = iterator->status();
  iterator.reset();
  return status.ok() ? db->Close() : status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: layers DIRECTORY\n";
    return 2;
  }
  const varve::Status status = Run(argv[1]);
  if (!status.ok()) std::cerr << "layers: " << status.ToString() << '\n';
  return status.ok() ? 0 : 1;
}
