// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

namespace varve::test {

// Returns the path of test/fixtures. One small library alone is compiled with
// it, so that a cache of objects serves checkouts in other places.
std::string FixturesDir();

}  // namespace varve::test
