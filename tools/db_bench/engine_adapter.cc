// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/engine_adapter.h"

#include <cstdio>

namespace varve {

namespace {

struct Entry {
  const char* name;
  // Null if it is not built in.
  std::unique_ptr<Engine> (*make)();
};

const Entry kEngines[] = {
    {"varve", NewVarveEngine},
#ifdef VARVE_HAVE_ROCKSDB
    {"rocksdb", NewRocksDBEngine},
#else
    {"rocksdb", nullptr},
#endif
#ifdef VARVE_HAVE_LEVELDB
    {"leveldb", NewLevelDBEngine},
#else
    {"leveldb", nullptr},
#endif
#ifdef VARVE_HAVE_LMDB
    {"lmdb", NewLMDBEngine},
#else
    {"lmdb", nullptr},
#endif
};

}  // namespace

std::string FamilyName(uint32_t number) {
  if (number == 0) return "default";
  char name[40];
  snprintf(name, sizeof(name), "column_family_name_%06u", number);
  return name;
}

std::vector<std::string> EngineNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kEngines) names.push_back(entry.name);
  return names;
}

Status NewEngine(const std::string& name, std::unique_ptr<Engine>* engine) {
  std::string known;
  for (const Entry& entry : kEngines) {
    if (entry.name != name) {
      known.append(known.empty() ? "" : ", ").append(entry.name);
      continue;
    }
    if (entry.make == nullptr) {
      return Status::NotSupported("engine " + name +
                                  " is not built in: install lib" + name +
                                  "-dev, configure and build again");
    }
    *engine = entry.make();
    return Status::OK();
  }
  return Status::InvalidArgument("unknown engine '" + name +
                                 "'; there are: " + known);
}

}  // namespace varve
