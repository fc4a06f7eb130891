// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Varve and RocksDB under one interface, for tests in which one opens what the
// other left. Errors fail the test.

#include "test/testing/engines/rocksdb_engine.h"
#include "test/testing/engines/varve_engine.h"
#include "test/testing/tools.h"

namespace varve::test {

// The two engines in the order of a session: which writes, and which reads.
struct EnginePair {
  explicit EnginePair(Rng* random) : varve(random), rocksdb(random) {}

  std::pair<Engine*, Engine*> Shuffled(Rng* random) {
    if (random->OneIn(2)) return {&varve, &rocksdb};
    return {&rocksdb, &varve};
  }
  const char* WriterName(const Engine* writer) const {
    return writer == &varve ? "Varve wrote" : "RocksDB wrote";
  }

  VarveEngine varve;
  RocksDbEngine rocksdb;
};

}  // namespace varve::test
