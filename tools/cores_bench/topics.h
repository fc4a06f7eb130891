// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The operations that cores_bench runs. Operations of the engine have a
// production form and forms that share more between threads. Kernels have
// traffic that is known beforehand.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/cores_bench/simulated_core.h"

namespace varve::cores {

// The state that all workers of a variant share. Lives longer than they do.
class Fixture {
 public:
  virtual ~Fixture() = default;
  // Called on the thread that is to use it.
  virtual Worker* NewWorker(size_t core) = 0;
};

struct Variant {
  std::string name;  // "production" comes first.
  std::function<std::unique_ptr<Fixture>()> make;
};

struct Topic {
  std::string name;
  std::string operation;  // Describes one operation.
  std::vector<Variant> variants;
};

// `directory` is empty and is used for databases. It must outlive the fixtures.
std::vector<Topic> EngineTopics(const std::string& directory);
std::vector<Topic> KernelTopics();

}  // namespace varve::cores
