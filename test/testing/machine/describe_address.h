// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Names of addresses of code and global data, for messages of failed tests.

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace varve::test {

// "function()+0x12 (program+0x3456)": what is in brackets is for addr2line.
// Of a program's own functions, only those that it exports have names.
inline std::string DescribeAddress(uint64_t address) {
  char text[64];
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0) {
    snprintf(text, sizeof(text), "0x%llx",
             static_cast<unsigned long long>(address));
    return text;
  }
  std::string name;
  if (info.dli_sname != nullptr) {
    int failed = 0;
    char* plain =
        abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &failed);
    name = failed == 0 ? plain : info.dli_sname;
    free(plain);
    snprintf(text, sizeof(text), "+0x%llx ",
             static_cast<unsigned long long>(
                 address - reinterpret_cast<uint64_t>(info.dli_saddr)));
    name += text;
  }
  const std::string file = info.dli_fname;
  snprintf(text, sizeof(text), "+0x%llx)",
           static_cast<unsigned long long>(
               address - reinterpret_cast<uint64_t>(info.dli_fbase)));
  return name + "(" + file.substr(file.rfind('/') + 1) + text;
}

}  // namespace varve::test
