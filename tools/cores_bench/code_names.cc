// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/cores_bench/code_names.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
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

// Returns the length of a name without the arguments, which may begin within
// a template's, and sets *begin to where it begins, after a return type.
size_t NameIn(const std::string& text, size_t* begin) {
  size_t depth = 0;
  size_t open = 0;  // Where template arguments begin.
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' && i > 0) return depth > 0 ? open : i;
    if (text[i] == '<' && depth++ == 0) open = i;
    if (text[i] == '>' && depth > 0) --depth;
    if (text[i] == ' ' && depth == 0) *begin = i + 1;
  }
  return text.size();
}

// Without arguments, return types and anonymous namespaces.
std::string Readable(const char* name) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = demangled != nullptr ? demangled : name;
  free(demangled);
  for (size_t at;
       (at = text.find("(anonymous namespace)::")) != std::string::npos;) {
    text.erase(at, sizeof("(anonymous namespace)::") - 1);
  }
  size_t begin = 0;
  text.resize(NameIn(text, &begin));
  return text.find("operator") == std::string::npos ? text.substr(begin) : text;
}

// Returns the innermost of Varve's functions that were inlined there, or an
// empty string.
std::string InlinedNameOf(Dwfl_Module* module, uint64_t address) {
  Dwarf_Addr bias = 0;
  Dwarf_Die* const unit = dwfl_module_addrdie(module, address, &bias);
  if (unit == nullptr) return "";
  Dwarf_Die* innermost = nullptr;
  Dwarf_Die* scopes = nullptr;
  int count = 0;
  if (dwarf_getscopes(unit, address - bias, &innermost) > 0) {
    count = dwarf_getscopes_die(innermost, &scopes);
  }
  std::string found;
  for (int i = 0; i < count && found.empty(); ++i) {
    if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine) continue;
    Dwarf_Attribute attribute;
    const char* const name = dwarf_formstring(
        dwarf_attr_integrate(&scopes[i], DW_AT_linkage_name, &attribute));
    if (name == nullptr) continue;
    found = Readable(name);
    if (!found.starts_with("varve::")) found.clear();
  }
  free(innermost);
  free(scopes);
  return found;
}

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
  std::string text = InlinedNameOf(module, address);
  if (!text.empty()) return text;
  const char* const name = dwfl_module_addrname(module, address);
  return name != nullptr ? Readable(name) : "";
}

}  // namespace varve::cores
