// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The headers that most tests include. They are compiled once for all tests,
// and come before the first line of each (test/CMakeLists.txt). A test still
// includes what it uses, since it is also compiled without this header.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "varve/db.h"
