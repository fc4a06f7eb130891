// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/cores_bench/code_names.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <cstdlib>

namespace varve::cores {

namespace {

const Dwfl_Callbacks kCallbacks = {
    .find_elf = dwfl_linux_proc_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = nullptr,
    .debuginfo_path = nullptr,
};

}  // namespace

CodeNames::CodeNames() {
  dwfl_ = dwfl_begin(&kCallbacks);
  if (dwfl_ == nullptr) return;
  dwfl_linux_proc_report(dwfl_, getpid());
  dwfl_report_end(dwfl_, nullptr, nullptr);
}

CodeNames::~CodeNames() {
  if (dwfl_ != nullptr) dwfl_end(dwfl_);
}

std::string CodeNames::NameOf(uint64_t address) const {
  if (dwfl_ == nullptr) return "";
  Dwfl_Module* const module = dwfl_addrmodule(dwfl_, address);
  if (module == nullptr) return "";
  const char* const name = dwfl_module_addrname(module, address);
  if (name == nullptr) return "";
  int status = 0;
  char* const demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = demangled != nullptr ? demangled : name;
  free(demangled);
  // Neither arguments nor the anonymous namespaces in it.
  for (size_t at;
       (at = text.find("(anonymous namespace)::")) != std::string::npos;) {
    text.erase(at, sizeof("(anonymous namespace)::") - 1);
  }
  const size_t arguments = text.find('(');
  if (arguments != std::string::npos && arguments > 0) text.resize(arguments);
  return text;
}

}  // namespace varve::cores
