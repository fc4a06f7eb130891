// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The operations that cores_bench runs. Operations of the engine have a
// production form and forms that share more between threads. Kernels have
// traffic that is known beforehand.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/cores_bench/cores_kernel.h"
#include "tools/cores_bench/simulated_core.h"

namespace varve::cores {

// The state that all workers of a variant share. Lives longer than they do.
class Fixture {
 public:
  virtual ~Fixture() = default;
  // Called on the thread that is to use it.
  virtual Worker* NewWorker(size_t core) = 0;
};

// The lines that an operation moves if all of many cores of a socket do nothing
// else: from the least to the most, which are equal if it is known exactly.
struct Known {
  double least = 0;
  double most = 0;
  const char* why = "";
  // To be added for each core.
  double least_each = 0;
  double most_each = 0;

  double LeastOf(size_t cores) const {
    return least + least_each * static_cast<double>(cores);
  }
  double MostOf(size_t cores) const {
    return most + most_each * static_cast<double>(cores);
  }
};

struct Variant {
  std::string name;  // "production" comes first.
  // One of both: what is recorded, or what is executed.
  std::function<std::unique_ptr<Fixture>()> make;
  const varve_kernel* kernel = nullptr;
  std::optional<Known> known = std::nullopt;
  // Whether threads of this machine can take the form that is recorded.
  bool is_measured = true;
};

struct Topic {
  std::string name;
  std::string operation;  // Describes one operation.
  std::vector<Variant> variants;
};

// `directory` is empty and is used for databases. It must outlive the fixtures.
std::vector<Topic> EngineTopics(const std::string& directory);
std::vector<Topic> KernelTopics();
std::vector<Topic> ExecutedTopics();

// A topic with the kernels of a library, which stays loaded: see
// cores_kernel.h. Returns false, and why, if it has none.
bool LoadKernels(const std::string& file, Topic* topic, std::string* error);

}  // namespace varve::cores
