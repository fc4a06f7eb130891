// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "test/testing/fixtures_dir.h"

namespace varve::test {

std::string FixturesDir() { return VARVE_FIXTURES_DIR; }

}  // namespace varve::test
