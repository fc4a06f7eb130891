// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Names of functions and variables of this process, from its symbol tables and
// debugging information.

#include <cstdint>
#include <memory>
#include <string>

struct Dwfl;

namespace varve::cores {

class CodeNames {
 public:
  CodeNames();
  ~CodeNames();
  CodeNames(const CodeNames&) = delete;
  CodeNames& operator=(const CodeNames&) = delete;

  // Returns the name of the function or variable that contains the address,
  // without arguments, or an empty string. Where a function of Varve's was
  // inlined, returns the name of that.
  std::string NameOf(uint64_t address) const;

 private:
  Dwfl* dwfl_ = nullptr;
};

}  // namespace varve::cores
