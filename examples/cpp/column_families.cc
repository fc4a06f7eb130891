// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// column_families DIRECTORY: keeps finds by their number, and an index of them
// by their place, in two column families that change together.

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "varve/db.h"
#include "varve/filter_policy.h"
#include "varve/read_transaction.h"
#include "varve/write_batch.h"

namespace {

using Handles = std::vector<varve::ColumnFamilyHandle*>;

enum Family { kFinds, kPlaces };

varve::Status Open(const std::string& directory, Handles* handles,
                   std::unique_ptr<varve::DB>* db) {
  varve::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  // Each family has its own options. Finds are looked up by their number.
  varve::ColumnFamilyOptions finds;
  finds.filter_policy = varve::NewBloomFilterPolicy(10);
  const std::vector<varve::ColumnFamilyDescriptor> families = {
      {varve::kDefaultColumnFamilyName, finds},
      {"places", varve::ColumnFamilyOptions()}};
  return varve::DB::Open(options, directory, families, handles, db);
}

varve::Status Add(varve::DB* db, const Handles& handles,
                  const std::string& number, const std::string& place,
                  const std::string& what) {
  varve::WriteBatch batch;
  batch.Put(handles[kFinds], number, what);
  batch.Put(handles[kPlaces], place + "/" + number, "");
  return db->Write(varve::WriteOptions(), &batch);
}

// Prints the finds of a place, as of one moment of both families.
varve::Status Print(varve::DB* db, const Handles& handles,
                    const std::string& place) {
  const varve::ReadTransaction moment(db);
  const std::string prefix = place + "/";
  const std::unique_ptr<varve::Iterator> iterator =
      moment.NewIterator(varve::ReadOptions(), handles[kPlaces]);
  for (iterator->Seek(prefix);
       iterator->Valid() && iterator->key().starts_with(prefix);
       iterator->Next()) {
    const std::string number = iterator->key().ToString().substr(prefix.size());
    std::string what;
    const varve::Status status =
        moment.Get(varve::ReadOptions(), handles[kFinds], number, &what);
    if (!status.ok()) return status;
    std::cout << place << ' ' << number << ": " << what << '\n';
  }
  return iterator->status();
}

varve::Status Run(const std::string& directory) {
  Handles handles;
  std::unique_ptr<varve::DB> db;
  varve::Status status = Open(directory, &handles, &db);
  if (!status.ok()) return status;
  status = Add(db.get(), handles, "17", "lake", "a shell");
  if (status.ok()) status = Add(db.get(), handles, "18", "hill", "a tooth");
  if (status.ok()) status = Add(db.get(), handles, "19", "lake", "a leaf");
  if (status.ok()) status = Print(db.get(), handles, "lake");
  for (varve::ColumnFamilyHandle* const handle : handles) delete handle;
  const varve::Status closed = db->Close();
  return status.ok() ? closed : status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: column_families DIRECTORY\n";
    return 2;
  }
  const varve::Status status = Run(argv[1]);
  if (!status.ok())
    std::cerr << "column_families: " << status.ToString() << '\n';
  return status.ok() ? 0 : 1;
}
