// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Names of functions and variables of this process, from its symbol tables.

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

  // Returns the demangled name of what contains the address, without its
  // arguments, or an empty string.
  std::string NameOf(uint64_t address) const;

 private:
  Dwfl* dwfl_ = nullptr;
};

}  // namespace varve::cores
