// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "test/testing/db/engine_parts.h"

namespace varve::test {

// The parts of a database in memory with the families default, a and b. The
// last two share their options.
class ThreeFamiliesTest : public ::testing::Test {
 protected:
  Options other_options_ = TinyOptions();
  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  EngineParts parts_{TinyOptions(), env_.get()};
  Options& options_ = parts_.core.options;
  ColumnFamily* const default_ = &parts_.core.default_family;
  ColumnFamily* const a_ = parts_.Add("a", &other_options_);
  ColumnFamily* const b_ = parts_.Add("b", &other_options_);
};

}  // namespace varve::test
